import numpy as np
a = np.arange(12, dtype=np.float64).reshape(3, 4)
print((a @ a.T).tolist(), a.mean(axis=0).tolist(), np.linalg.det(np.array([[2.0, 1.0], [1.0, 3.0]])).round(6))
print(np.fft.rfft([1.0, 2.0, 3.0, 4.0]).round(6).tolist(), np.linalg.solve([[3.0, 1.0], [1.0, 2.0]], [9.0, 8.0]).tolist())
print(np.random.default_rng(7).integers(0, 100, 5).tolist(), np.sort([3, 1, 2])[::-1].tolist(), np.unique([1, 2, 2]).tolist())
print(np.datetime64("2024-02-29") + np.timedelta64(1, "D"), np.einsum("ij->j", a).tolist())
