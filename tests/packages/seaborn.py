import matplotlib.pyplot as plt
import pandas as pd
import seaborn as sns
axes = sns.barplot(pd.DataFrame({"k": ["a", "b", "a"], "v": [1, 2, 3]}), x="k", y="v", errorbar=None)
print([round(bar.get_height(), 6) for bar in axes.patches], axes.get_xlabel(), len(plt.get_fignums()))
