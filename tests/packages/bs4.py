from bs4 import BeautifulSoup
for parser in ("html.parser", "lxml", "html5lib"):
    soup = BeautifulSoup("<ul><li class=a>1<li>2</ul><a href='/x'>link</a>", parser)
    print(parser, [li.get_text() for li in soup.find_all("li")], soup.a["href"], soup.select_one("li.a").get_text()[:1])
