import io
from openpyxl import Workbook, load_workbook
from openpyxl.styles import Font
book = Workbook()
sheet = book.active
sheet.append(["a", "b"])
sheet.append([1, 2.5])
sheet["A1"].font = Font(bold=True)
data = io.BytesIO()
book.save(data)
again = load_workbook(data).active
print([[cell.value for cell in row] for row in again.rows], again["A1"].font.bold)
