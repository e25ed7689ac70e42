import io
import matplotlib.pyplot as plt
from PIL import Image
figure, axes = plt.subplots(figsize=(4, 3), dpi=100)
axes.plot([0, 1, 2, 3], [0, 1, 4, 9], label="squares")
axes.set_title("A title")
axes.legend()
picture = io.BytesIO()
figure.savefig(picture, format="png")
image = Image.open(picture).convert("L")
small = list(image.resize((8, 8), Image.Resampling.LANCZOS).getdata())
mean = sum(small) / len(small)
print(image.size, f"{sum((value > mean) << i for i, value in enumerate(small)):016x}")
vector = io.StringIO()
figure.savefig(vector, format="svg")
print(vector.getvalue().count("<path") > 10, plt.get_backend().lower())
