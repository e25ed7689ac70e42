import attr
import charset_normalizer
import dateutil.parser
import joblib
import more_itertools
import narwhals
import tabulate
import tomli_w
import toolz
import tqdm
import xmltodict
print(dateutil.parser.parse("3 Jan 2024 14:00").isoformat(), tabulate.tabulate([[1, 2]], headers=["a", "b"]).splitlines()[0])
print(tomli_w.dumps({"a": 1}).strip(), xmltodict.parse("<a><b>1</b></a>"), toolz.frequencies("aab"), list(more_itertools.chunked(range(4), 2)))
print(joblib.Parallel(n_jobs=2)(joblib.delayed(abs)(n) for n in (-1, 2)), attr.make_class("C", ["x"])(1).x)
