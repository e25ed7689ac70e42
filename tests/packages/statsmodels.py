import numpy as np
import statsmodels.api as sm
import statsmodels.formula.api as smf
import pandas as pd
data = pd.DataFrame({"x": [1.0, 2, 3, 4, 5], "y": [2.1, 3.9, 6.2, 7.8, 10.1]})
fit = smf.ols("y ~ x", data).fit()
print(fit.params.round(6).to_dict(), round(fit.rsquared, 6), round(float(fit.pvalues["x"]), 8))
print(sm.OLS(data["y"], sm.add_constant(data["x"])).fit().params.round(6).tolist(), round(float(sm.tsa.acf(np.arange(10.0), nlags=1)[1]), 6))
