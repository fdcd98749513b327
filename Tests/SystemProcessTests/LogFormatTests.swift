import TestSupport
import Testing

@testable import SystemTestSupport

/// `log.format`: lines for programs, and lines of text.
@Suite struct LogFormatTests {
    /// A start that fails, so that the program ends by itself after it has logged.
    private func arguments(_ folder: TemporaryFolder, _ more: [String] = []) throws -> [String] {
        [
            "run", "--upstream", "http://127.0.0.1:1", "--token-file", try folder.write("token", "t"), "--listen",
            "unix:/nowhere/in", "--health-address", "off", "--admin-address", "off",
        ] + more
    }

    /// What a process on a terminal of its own writes there.
    private func onTerminal(_ arguments: [String]) async throws -> [Substring] {
        let script = "import os, pty, sys; sys.exit(os.waitstatus_to_exitcode(pty.spawn(sys.argv[1:])))"
        let process = try ServerProcess(
            "/usr/bin/python3", ["-c", script, try Products.path("lanyard")] + arguments)
        #expect(try await process.waitForExit() == .code(69))
        return process.output.split(separator: "\r\n")
    }

    @Test("a terminal gets lines of text, a pipe JSON, and the configured format holds for both")
    func format() async throws {
        let folder = try TemporaryFolder()
        let people = try #require(try await onTerminal(arguments(folder)).last)
        #expect(people.contains(" critical ") && people.contains(" event=start.failed "), "\(people)")
        let told = try #require(try await onTerminal(arguments(folder, ["--log-format", "json"])).last)
        #expect(try JSON(text: String(told))["event"].string == "start.failed")
        for (format, isJSON) in [(nil as String?, true), ("json", true), ("text", false)] {
            let process = try ServerProcess("lanyard", arguments(folder, format.map { ["--log-format", $0] } ?? []))
            #expect(try await process.waitForExit() == .code(69))
            let last = try #require(process.lines.last)
            #expect((last.event == "start.failed") == isJSON && last.text.contains("start.failed"))
        }
    }

    @Test("systemd's journal gets the priority of each line, and no other reader does", arguments: ["json", "text"])
    func priorities(_ format: String) async throws {
        let folder = try TemporaryFolder()
        let upstream = try RawServer()
        let (data, health) = (RawEndpoint.unix(folder.file("in")), RawEndpoint.unix(folder.file("health")))
        // The journal's variable names the file that standard error is; the second one names another.
        for (descriptor, isJournal) in [(2, true), (0, false)] {
            let stream = "JOURNAL_STREAM=$(stat -L -c %d:%i /proc/self/fd/\(descriptor)); export JOURNAL_STREAM"
            let command =
                Launcher.shell(stream) + [
                    try Products.path("lanyard"), "run", "--upstream", "http://\(upstream.endpoint)", "--token-file",
                    try folder.write("token", "t"), "--listen", "\(data)", "--health-address", "\(health)",
                    "--admin-address", "off", "--log-format", format,
                ]
            let lanyard = try ServerProcess(command[0], Array(command.dropFirst()))
            try await eventually("it is ready; \(lanyard.log)") {
                (try? await RawClient.ask(health, "GET", "/readyz"))?.status == 200
            }
            #expect(try await RawClient.ask(data, "GET", "/x").status == 200)
            #expect(try await lanyard.terminate() == .code(143))
            let lines = lanyard.lines.map(\.text)
            #expect(lines.count > 5)
            guard isJournal else {
                #expect(lines.allSatisfy { !$0.hasPrefix("<") }, "\(lanyard.log)")
                continue
            }
            let levels = ["debug": 7, "info": 6, "notice": 5, "warning": 4, "error": 3, "critical": 2]
            for line in lines {
                let match = try #require(line.prefixMatch(of: /<([2-7])>/), "\(line)")
                let rest = String(line[match.range.upperBound...])
                let level =
                    format == "json"
                    ? LogLine(rest).json["level"].string : rest.split(separator: " ").dropFirst().first.map(String.init)
                #expect(levels[level ?? ""] == Int(match.1), "\(line)")
            }
            #expect(lines.contains { $0.hasPrefix("<6>") && $0.contains("access") })
        }
    }

    @Test("the access log has the configured format")
    func access() async throws {
        let folder = try TemporaryFolder()
        let upstream = try RawServer()
        let (data, health) = (RawEndpoint.unix(folder.file("in")), RawEndpoint.unix(folder.file("health")))
        let lanyard = try ServerProcess(
            "lanyard",
            [
                "run", "--upstream", "http://\(upstream.endpoint)", "--token-file", try folder.write("token", "t"),
                "--listen", "\(data)", "--health-address", "\(health)", "--admin-address", "off", "--log-format",
                "text",
            ])
        try await eventually("it is ready") { (try? await RawClient.ask(health, "GET", "/readyz"))?.status == 200 }
        #expect(try await RawClient.ask(data, "GET", "/a;b?hidden").status == 200)
        try await eventually("its line is there") {
            lanyard.lines.contains {
                $0.text.contains(" info request event=access request_id=")
                    && $0.text.contains(" route=default user=default method=GET path=/a;b status=200 origin=upstream ")
                    && $0.text.hasSuffix(" retry=0 replay=0 generation=1")
            }
        }
        #expect(try await lanyard.terminate() == .code(143))
    }
}
