from jinja2 import Environment
template = Environment(autoescape=True).from_string("{% for x in xs if x %}{{ loop.index }}:{{ x|upper }} {% endfor %}{{ '<' }}")
print(template.render(xs=["a", "", "b"]))
