fn main() {
    let a: Vec<String> = std::env::args().collect();
    let p = |i: usize| std::path::Path::new(&a[i]).to_path_buf();
    let code = std::fs::read_to_string(&a[4]).unwrap();
    if let Err(e) = gloveport_guest::making::probe(&p(1), &p(2), &p(3), &code, &p(5), &p(6)) {
        eprintln!("{e:?}");
        std::process::exit(1);
    }
}
