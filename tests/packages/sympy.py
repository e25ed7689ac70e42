import sympy as sp
x = sp.symbols("x")
print(sp.integrate(x * sp.exp(x), x), sp.solve(x**2 - 5 * x + 6), sp.diff(sp.sin(x) ** 2, x), sp.limit(sp.sin(x) / x, x, 0))
print(sp.factor(x**4 - 1), sp.Matrix([[1, 2], [3, 4]]).det(), sp.nsimplify("0.25"), sp.pi.evalf(20))
