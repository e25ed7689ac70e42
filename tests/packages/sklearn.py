from sklearn.cluster import KMeans
from sklearn.datasets import load_iris
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.model_selection import cross_val_score, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
x, y = load_iris(return_X_y=True)
print(x.shape, LinearRegression().fit([[0], [1], [2]], [1, 3, 5]).coef_.round(6).tolist())
print(cross_val_score(make_pipeline(StandardScaler(), LogisticRegression()), x, y).mean().round(4))
a, b, c, d = train_test_split(x, y, random_state=0)
print(RandomForestClassifier(n_estimators=20, random_state=0).fit(a, c).score(b, d) > 0.9)
print(sorted(KMeans(3, n_init=3, random_state=0).fit(x).cluster_centers_[:, 0].round(2).tolist()))
