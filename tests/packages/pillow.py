import io
from PIL import Image, ImageDraw, ImageFilter, ImageOps
image = Image.new("RGB", (32, 32), "white")
ImageDraw.Draw(image).ellipse((4, 4, 28, 28), fill="red", outline="black")
for kind in ("PNG", "GIF", "BMP", "TIFF", "PPM"):
    data = io.BytesIO()
    image.save(data, kind)
    again = Image.open(io.BytesIO(data.getvalue())).convert("RGB")
    print(kind, again.size, again.getpixel((16, 16)))
print(image.filter(ImageFilter.BLUR).getpixel((16, 16)), ImageOps.grayscale(image).getpixel((0, 0)), image.rotate(90).getpixel((16, 16)))
