from PIL import features
print({name: features.check(name) for name in ("jpg", "jpg_2000", "webp", "libtiff", "zlib", "freetype2", "raqm")})
