import io
from pypdf import PdfReader, PdfWriter
from reportlab.lib.pagesizes import A4
from reportlab.pdfgen import canvas
data = io.BytesIO()
page = canvas.Canvas(data, pagesize=A4)
page.drawString(72, 700, "Hello from reportlab")
page.showPage()
page.drawString(72, 700, "Second page")
page.save()
reader = PdfReader(data)
print(len(reader.pages), reader.pages[0].extract_text().strip())
writer = PdfWriter()
writer.add_page(reader.pages[1])
out = io.BytesIO()
writer.write(out)
print(PdfReader(out).pages[0].extract_text().strip())
