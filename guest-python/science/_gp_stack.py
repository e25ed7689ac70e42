"""What the snapshot of the science image holds: the standard library, and what scripts import from the packages.

The rest of the packages stays in the archive and is imported from there when a script asks for it.
"""

import os
import sys

_STANDARD_NEVER = frozenset((
    "antigravity", "this", "idlelib", "turtledemo", "turtle", "tkinter", "test", "ensurepip", "venv", "pydoc_data",
    "__phello__", "__hello__", "site", "sitecustomize", "usercustomize", "_pyrepl", "curses", "_aix_support",
    "_android_support", "_apple_support", "_ios_support", "_osx_support", "encodings.mbcs", "encodings.oem", "dbm.gnu",
    "dbm.ndbm", "ctypes", "pty", "tty", "ssl", "mmap", "lib2to3", "profiling",
))

_PACKAGES = """
numpy numpy.fft numpy.linalg numpy.random numpy.polynomial numpy.ma numpy.testing numpy.lib.stride_tricks
pandas pandas.testing pandas.plotting pandas.tseries.offsets pandas.api.types pandas.io.formats.excel
pandas.io.formats.style pandas.io.excel._openpyxl pandas.io.excel._xlsxwriter pandas.io.json pandas.plotting._matplotlib
scipy scipy.cluster.hierarchy scipy.cluster.vq scipy.constants scipy.fft scipy.integrate scipy.interpolate scipy.io
scipy.linalg scipy.ndimage scipy.optimize scipy.signal scipy.sparse scipy.sparse.csgraph scipy.sparse.linalg
scipy.spatial scipy.spatial.distance scipy.spatial.transform scipy.special scipy.stats
sklearn sklearn.base sklearn.calibration sklearn.cluster sklearn.compose sklearn.covariance sklearn.datasets
sklearn.decomposition sklearn.discriminant_analysis sklearn.dummy sklearn.ensemble sklearn.feature_extraction.text
sklearn.feature_selection sklearn.gaussian_process sklearn.impute sklearn.inspection sklearn.isotonic
sklearn.linear_model sklearn.manifold sklearn.metrics sklearn.metrics.pairwise sklearn.mixture
sklearn.model_selection sklearn.multiclass sklearn.naive_bayes sklearn.neighbors sklearn.neural_network
sklearn.pipeline sklearn.preprocessing sklearn.svm sklearn.tree sklearn.utils
statsmodels statsmodels.api statsmodels.formula.api statsmodels.tsa.api statsmodels.stats.api
matplotlib matplotlib.pyplot matplotlib.backends.backend_agg matplotlib.backends.backend_svg matplotlib.animation
matplotlib.dates matplotlib.ticker matplotlib.patches matplotlib.gridspec matplotlib.colors mpl_toolkits.mplot3d
PIL PIL.Image PIL.ImageChops PIL.ImageColor PIL.ImageDraw PIL.ImageEnhance PIL.ImageFilter PIL.ImageFont PIL.ImageOps
PIL.ImageStat PIL.PngImagePlugin PIL.JpegImagePlugin PIL.GifImagePlugin PIL.BmpImagePlugin
lxml lxml.etree lxml.html lxml.objectify lxml.builder bs4 openpyxl openpyxl.styles openpyxl.chart openpyxl.utils
xlsxwriter xlrd pypdf yaml jinja2 markupsafe networkx regex seaborn
reportlab reportlab.pdfgen.canvas reportlab.platypus reportlab.lib.pagesizes reportlab.lib.styles reportlab.lib.colors
reportlab.lib.units sympy mpmath dateutil dateutil.parser dateutil.relativedelta dateutil.rrule dateutil.tz tabulate
charset_normalizer html5lib xmltodict defusedxml.ElementTree tomli_w patsy attr attrs more_itertools toolz tlz tqdm
typing_extensions joblib cloudpickle threadpoolctl narwhals formulaic cycler kiwisolver contourpy packaging.version
pyparsing six
""".split()

# Files of matplotlib that are no code.
_DATA = "/usr/local/lib/matplotlib"


def to_import(names):
    """Of the archive's modules, those to import before the snapshot, in order."""
    standard = sorted(name for name in names if _is_wanted_standard(name))
    return standard + _PACKAGES


def _is_wanted_standard(name):
    top = name.partition(".")[0]
    return top in sys.stdlib_module_names and top not in _STANDARD_NEVER and name not in _STANDARD_NEVER


def adjust(spec):
    """Matplotlib looks for its data beside its code, as real files: they lie beside the archive."""
    if spec.name == "matplotlib":
        spec.origin = f"{_DATA}/__init__.pyc"
    return spec


def before_imports():
    """Matplotlib wants a directory that it may write to; the build has one, and a run has its own `/tmp`."""
    os.environ["MPLCONFIGDIR"] = "/tmp/matplotlib"
    os.environ["MPLBACKEND"] = "agg"
    os.makedirs("/tmp/matplotlib", exist_ok=True)


def warm_up():
    """Runs what most scripts run, so that lazily made parts of the packages are in the snapshot."""
    import io

    import matplotlib.pyplot as plt
    import numpy as np
    import pandas as pd

    text = "day,kind,value\n2024-01-01,a,1.5\n2024-01-02,b,2\n2024-01-03,a,3\n"
    frame = pd.read_csv(io.StringIO(text), parse_dates=["day"])
    frame["double"] = frame["value"] * 2
    repr(frame), str(frame["value"]), str(frame.dtypes), frame.info(buf=io.StringIO()), frame.describe()
    frame.groupby("kind")["value"].agg(["sum", "mean", "count"]), frame.groupby("kind").sum(numeric_only=True)
    frame.merge(frame[["kind"]], on="kind", how="left"), pd.concat([frame, frame]), frame.sort_values("value")
    frame.pivot_table(index="day", columns="kind", values="value").fillna(0), frame["kind"].value_counts()
    frame.set_index("day").resample("D").sum(numeric_only=True), frame["day"].dt.strftime("%d %b"), frame["kind"].str.upper()
    frame[frame["value"] > 1].iloc[0], frame.loc[0, "value"], frame["value"].rolling(2).mean(), frame.to_dict("records")
    frame.to_csv(), frame.to_json(), frame.to_markdown(), frame.to_string(), frame.apply(lambda row: row["value"], axis=1)
    frame.to_excel(book := io.BytesIO(), index=False), pd.read_excel(book), pd.date_range("2024-01-01", periods=2, tz="UTC")
    np.linalg.solve(np.eye(2), [1.0, 2.0]), np.random.default_rng(1).normal(size=4).std(), repr(np.arange(3) / 2)
    figure, axes = plt.subplots()
    axes.plot([1, 2], [3, 4], label="line")
    axes.bar([1, 2], [3, 4])
    axes.set_title("title")
    axes.legend()
    figure.savefig(io.BytesIO(), format="png")
    plt.close("all")
    # A font that is loaded reads its file when it is used, and no open file survives the snapshot.
    from matplotlib import font_manager, text

    del figure, axes
    for cache in (*vars(font_manager).values(), *vars(text).values()):
        if hasattr(cache, "cache_clear"):
            cache.cache_clear()
