"""Which city earns most, and with what? `gloveport run --image science examples/sales.py --out figures`"""

import os

import matplotlib.pyplot as plt
import pandas as pd

folder = "examples" if os.path.isdir("examples") else "."
sales = pd.read_csv(f"{folder}/sales.csv", parse_dates=["day"])
sales["revenue"] = sales["units"] * sales["price"]
table = sales.pivot_table(index="city", columns="product", values="revenue", aggfunc="sum")
table.plot.bar(stacked=True, ylabel="revenue", title="Revenue by city")
plt.tight_layout()

totals = table.sum(axis=1).sort_values(ascending=False)
print(f"{len(sales)} sales from {sales['day'].min():%d %b} to {sales['day'].max():%d %b %Y}")
for city, total in totals.items():
    best = table.loc[city].idxmax()
    print(f"{city:<7} {total:8.2f}, most of it with {best}")
print(f"best day: {sales.groupby('day')['revenue'].sum().idxmax():%A}")
