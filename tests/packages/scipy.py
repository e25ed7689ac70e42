import numpy as np
from scipy import integrate, interpolate, linalg, optimize, signal, sparse, spatial, special, stats
print(round(optimize.brentq(lambda x: x**3 - 2, 0, 2), 6), round(integrate.quad(np.sin, 0, np.pi)[0], 6), round(float(special.gamma(5.5)), 4))
print(optimize.curve_fit(lambda x, a, b: a * x + b, [0, 1, 2, 3], [1, 3, 5, 7])[0].round(6).tolist())
print([round(float(v), 6) for v in stats.ttest_ind([1, 2, 3, 4], [2, 3, 4, 6])], round(float(stats.norm.ppf(0.975)), 6))
print(sparse.csr_matrix([[1, 0], [0, 2]]).sum(), spatial.distance.cdist([[0, 0]], [[3, 4]]).tolist(), signal.find_peaks([0, 1, 0, 2, 0])[0].tolist())
print(float(interpolate.CubicSpline([0, 1, 2], [0, 1, 4])(1.5)).__round__(6), linalg.eigvalsh([[2.0, 0.0], [0.0, 3.0]]).tolist())
