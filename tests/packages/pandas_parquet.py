import io
import pandas as pd
try:
    pd.DataFrame({"a": [1]}).to_parquet(io.BytesIO())
    print("parquet works")
except ImportError as error:
    print("no parquet:", str(error).splitlines()[0])
