import regex
print(regex.findall(r"\p{Lu}\p{Ll}+", "Émile et Zoé"), bool(regex.fullmatch(r"(?:cat){e<=1}", "cart")), regex.sub(r"(?<=\d{2})x", "-", "12x 3x"))
