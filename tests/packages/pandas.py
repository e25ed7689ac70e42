import io
import pandas as pd
df = pd.read_csv(io.StringIO("day,city,n\n2024-03-30,Berlin,1\n2024-03-31,Berlin,2\n2024-03-31,Rome,5\n"), parse_dates=["day"])
print(df.groupby("city")["n"].sum().to_dict(), df.merge(pd.DataFrame({"city": ["Rome"], "it": [True]}), how="left")["it"].notna().sum())
hours = pd.Series(range(6), index=pd.date_range("2024-03-31", periods=6, freq="h", tz="UTC")).tz_convert("Europe/Berlin")
print([str(t) for t in hours.index], hours.resample("2h").sum().tolist())
print(pd.read_json(io.StringIO(df.to_json(orient="records")))["n"].sum(), df.pivot_table(index="day", columns="city", values="n").fillna(0).values.tolist())
book = io.BytesIO()
df.to_excel(book, index=False)
print(pd.read_excel(book)["n"].tolist(), df["n"].rolling(2).mean().tolist()[1:], df.describe()["n"]["max"])
