//! A tool of your own: an async closure with typed arguments. Scripts import it like any other.

use gloveport::tool::{Effect, ToolSpec, tool_fn};
use gloveport::{Request, Sandbox, Status};

#[derive(serde::Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
struct Weather {
    /// Name of the city.
    city: String,
    /// Days to look ahead.
    #[serde(default)]
    days: u8,
}

const SCRIPT: &str = r#"
from concurrent.futures import ThreadPoolExecutor
from hermes_tools import weather

cities = ["Bern", "Oslo", "Lima"]
with ThreadPoolExecutor() as pool:
    for city, answer in zip(cities, pool.map(weather, cities)):
        print(f"{city}: {answer['sky']}, {answer['celsius']} °C")
print(weather("Bern", days="many"))
"#;

#[tokio::main]
#[expect(clippy::print_stdout, reason = "an example shows its result")]
async fn main() -> Result<(), gloveport::BuildError> {
    let spec = ToolSpec::new::<Weather>("weather", "Tells the weather of a city.").effect(Effect::Read);
    let weather = tool_fn(spec, |args: Weather, _cx| async move {
        // A real one would ask a service; the closure is async and may use whatever the host has.
        let celsius = i64::try_from(args.city.len()).unwrap_or_default() * 3 - i64::from(args.days);
        Ok(serde_json::json!({ "sky": "rain", "celsius": celsius }))
    });
    let sandbox = Sandbox::builder().tool(weather).build()?;
    let result = sandbox.execute(Request::new(SCRIPT).list_tool_calls(true)).await;
    println!("{}", result.to_json());
    assert_eq!(result.status, Status::Success);
    assert_eq!((result.tool_calls_made, result.refused_calls), (3, 1));
    Ok(())
}

#[test]
fn runs() {
    main().expect("the example runs");
}
