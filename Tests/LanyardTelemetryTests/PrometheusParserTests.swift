import LanyardTelemetry
import TestSupport
import Testing

/// What Prometheus' own Python library makes of the page. Skipped where pip cannot install it.
@Suite struct PrometheusParserTests {
    @Test(
        "Prometheus' own parsers read the page",
        .enabled("pip cannot install prometheus_client") { await Self.python.value != nil })
    func parses() async throws {
        let python = try #require(await Self.python.value)
        let folder = try TemporaryFolder()
        for (format, module) in [(MetricsFormat.openMetrics, "openmetrics.parser"), (.text, "parser")] {
            let page = String(decoding: MetricsPage.write(MetricsPageTests.everySample, as: format), as: UTF8.self)
            let path = try folder.write("page", page)
            let script = """
                import sys
                from prometheus_client.\(module) import text_string_to_metric_families as parse
                families = list(parse(open("\(path)").read()))
                print(len(families), sum(len(family.samples) for family in families))
                """
            let (exit, output) = try await Self.run(python, ["-c", script])
            #expect(exit == .code(0), "\(output)")
            let lines = page.split(separator: "\n")
            let families = lines.count { $0.hasPrefix("# TYPE") }
            #expect(output == "\(families) \(lines.count { !$0.hasPrefix("#") })\n")
        }
    }

    private static let folder = try? TemporaryFolder()

    /// A Python that has the library, in a folder of the tests; nil if it cannot be installed.
    private static let python = Task { () -> String? in
        guard let folder else { return nil }
        let python = folder.path + "/venv/bin/python"
        let install = ["-m", "pip", "install", "-q", "--disable-pip-version-check", "prometheus_client"]
        guard (try? await run("/usr/bin/python3", ["-m", "venv", folder.path + "/venv"]))?.exit == .code(0),
            (try? await run(python, install))?.exit == .code(0)
        else { return nil }
        return python
    }

    private static func run(
        _ program: String, _ arguments: [String]
    ) async throws -> (exit: ServerProcess.Exit, output: String) {
        let process = try ServerProcess(program, arguments)
        let exit = try await process.waitForExit()
        return (exit, process.output + process.log)
    }
}
