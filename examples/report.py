"""A small report over the workspace, made with a few dozen tool calls: how large is each crate, where are its tests?"""
from concurrent.futures import ThreadPoolExecutor

from hermes_tools import read_file, search_files

manifests = sorted(search_files("Cargo.toml", target="files", limit=50)["files"])
crates = [path.rpartition("/")[0] for path in manifests if "/" in path]


def measure(crate):
    """Lines, files and tests of one crate."""
    files = search_files("*.rs", target="files", path=crate, limit=200)["files"]
    lines = sum(read_file(path, limit=1).get("total_lines", 0) for path in files[:2])
    tests = search_files(r"#\[(tokio::)?test", path=crate, file_glob="*.rs", output_mode="count", limit=200)
    return crate, len(files), lines, tests.get("total_count", 0)


with ThreadPoolExecutor(max_workers=8) as pool:
    rows = list(pool.map(measure, crates))

title = read_file("README.md", limit=1)["content"].strip().lstrip("# ")
print(f"{title}: {len(crates)} crates")
print(f"{'crate':<14}{'files':>6}{'lines of the 2 newest':>24}{'tests':>7}")
for crate, files, lines, tests in sorted(rows, key=lambda row: -row[1]):
    print(f"{crate:<14}{files:>6}{lines:>24}{tests:>7}")
print("longest chapter of LIMITATIONS.md:", max(read_file("LIMITATIONS.md", limit=2000)["content"].split("\n## "), key=len).splitlines()[0].lstrip("# "))
