import io
import openpyxl
import xlsxwriter
data = io.BytesIO()
book = xlsxwriter.Workbook(data, {"in_memory": True})
sheet = book.add_worksheet("s")
sheet.write_row(0, 0, ["x", 1, 2.5])
sheet.write_formula(1, 0, "=SUM(B1:C1)", None, 3.5)
book.close()
print([[cell.value for cell in row] for row in openpyxl.load_workbook(data)["s"].rows])
