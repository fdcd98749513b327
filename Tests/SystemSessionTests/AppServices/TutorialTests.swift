import Foundation
import TestSupport
import Testing

@testable import SystemTestSupport

/// The walks of README.md and of the pages in docs/use: every command is run, and prints what the page says.
@Suite struct TutorialTests {
    private struct Block {
        var language: String
        var lines: [String]
    }

    /// The code blocks of a page that are commands (`sh`) or what they print (`text`), in their order.
    ///
    /// - Parameter section: the heading of the second level whose blocks are meant; nil for the whole page.
    private static func blocks(of page: String, _ section: String?) throws -> [Block] {
        var blocks: [Block] = []
        var isOpen = false
        var isMeant = section == nil
        let text = try String(contentsOfFile: Products.root + "/" + page, encoding: .utf8)
        for line in text.split(separator: "\n", omittingEmptySubsequences: false).map(String.init) {
            if !isOpen, let section, line.hasPrefix("## ") { isMeant = line == "## " + section }
            guard isMeant else { continue }
            if line.hasPrefix("```") {
                if !isOpen { blocks.append(Block(language: String(line.dropFirst(3)), lines: [])) }
                isOpen.toggle()
            } else if isOpen {
                blocks[blocks.count - 1].lines.append(line)
            }
        }
        return blocks.filter { ["sh", "text"].contains($0.language) }
    }

    /// The ports of the pages, each with one that is free here. All are taken before one is given back: no two are the same.
    ///
    /// They lie below those that the kernel chooses from. Otherwise another test, or a connection, may get one before the page's
    /// command binds it. Where the kernel may choose every port, the tests cannot run.
    static func freePorts() throws -> [String: UInt16] {
        let range = try String(contentsOfFile: "/proc/sys/net/ipv4/ip_local_port_range", encoding: .utf8)
        let first = try #require(range.split(whereSeparator: \.isWhitespace).first.flatMap { UInt16($0) })
        try #require(first > 12_000, "net.ipv4.ip_local_port_range leaves no ports to the tests")
        var sockets: [RawSocket] = []
        defer { for socket in sockets { socket.close() } }
        var ports: [String: UInt16] = [:]
        for port in ["7400", "7401", "7490", "8080", "9000"] {
            var socket: RawSocket?
            for _ in 0..<100 where socket == nil {
                socket = try? RawSocket.listen(at: .tcp(.random(in: 10_000..<first)))
            }
            try sockets.append(#require(socket, "no free port"))
            ports[port] = sockets.last?.localPort
        }
        return ports
    }

    /// Whether printed lines are those of the page, where `…` stands for any text; alone on a line, for any lines.
    private static func matches(_ printed: ArraySlice<String>, _ page: ArraySlice<String>) -> Bool {
        guard let first = page.first else { return printed.isEmpty }
        if first == "…" {
            return (printed.startIndex...printed.endIndex).contains { matches(printed[$0...], page.dropFirst()) }
        }
        guard let line = printed.first else { return false }
        var rest = Substring(line)
        let parts = first.split(separator: "…", omittingEmptySubsequences: false)
        guard rest.hasPrefix(parts[0]) else { return false }
        rest = rest.dropFirst(parts[0].count)
        for part in parts.dropFirst() where !part.isEmpty {
            guard let range = rest.range(of: part) else { return false }
            rest = rest[range.upperBound...]
        }
        guard rest.isEmpty || first.hasSuffix("…") else { return false }
        return matches(printed.dropFirst(), page.dropFirst())
    }

    @Test(
        "every command of a walk works, and prints what the page says",
        arguments: [
            ("README.md", nil, 2, 1), ("docs/use/tutorial.md", "Five minutes", 5, 5),
            ("docs/use/tutorial.md", "A user logs in", 4, 4), ("docs/use/tutorial.md", "A bad night", 4, 3),
            ("docs/use/agents.md", nil, 2, 2), ("docs/use/tutorial-app-services.md", "Five minutes", 5, 5),
            ("docs/use/tutorial-app-services.md", "Accounts and users", 9, 7),
        ] as [(String, String?, Int, Int)])
    func walk(_ page: String, _ section: String?, _ commands: Int, _ outputs: Int) async throws {
        try await Self.run(page, section, commands, outputs)
    }

    @Test(
        "every command of the walk with nginx works, and prints what the page says",
        .enabled(if: NginxProcess.isInstalled, "this walk was not tried: it needs nginx (package nginx-light)"))
    func tutorial() async throws {
        try await Self.run("docs/use/tutorial-app-services.md", "A set-up of your own", 10, 10)
    }

    @Test("no other page has commands that are not run")
    func everyPage() throws {
        let folder = Products.root + "/docs/use"
        let pages = try FileManager.default.contentsOfDirectory(atPath: folder).filter { $0.hasSuffix(".md") }
        let withCommands = try pages.filter { page in
            try String(contentsOfFile: folder + "/" + page, encoding: .utf8).contains("\n```sh\n")
        }
        #expect(Set(withCommands) == ["agents.md", "tutorial.md", "tutorial-app-services.md"])
        let sections = try String(contentsOfFile: folder + "/tutorial.md", encoding: .utf8).components(
            separatedBy: "\n## ")
        #expect(sections.count { $0.contains("\n```sh\n") } == 3)
    }

    /// Runs the blocks of a page or section in a folder of their own, and compares what they print.
    private static func run(_ page: String, _ section: String?, _ commands: Int, _ outputs: Int) async throws {
        let folder = try TemporaryFolder()
        let blocks = try blocks(of: page, section)
        #expect(blocks.count { $0.language == "sh" } == commands && blocks.count { $0.language == "text" } == outputs)
        // Each block's output goes into a file of its own; the programs in the background keep none of it open.
        // A folder as `mkdir` makes it: others may read it.
        var script =
            "set -e -o pipefail\nchmod 755 \(folder.path)\ncd \(folder.path)\ntrap 'kill $(jobs -p) 2>/dev/null || true' EXIT\n"
        var expected: [Int: [String]] = [:]
        for (number, block) in blocks.enumerated() {
            switch block.language {
            case "sh": script += "exec >\(folder.path)/out-\(number)\n" + block.lines.joined(separator: "\n") + "\n"
            // The output is split without empty lines.
            default: expected[number - 1] = block.lines.filter { !$0.isEmpty }
            }
        }
        let ports = try freePorts()
        for (port, free) in ports { script = script.replacing(":\(port)", with: ":\(free)") }
        script = script.replacing("unix:$PWD/admin.sock", with: "unix:\(folder.path)/admin.sock")
        try folder.write("script", script)
        let programs = URL(fileURLWithPath: try Products.path("lanyard")).deletingLastPathComponent().path
        let path = "\(programs):/usr/local/bin:/usr/bin:/bin"
        var environment = ["PATH": path, "HOME": folder.path]
        if script.contains("lanyard run --upstream") {
            // A walk by flags names no address.
            environment["LANYARD_LISTEN"] = ports["7400"].map { "127.0.0.1:\($0)" }
            environment["LANYARD_HEALTH_ADDRESS"] = ports["7401"].map { "127.0.0.1:\($0)" }
            environment["LANYARD_ADMIN_ADDRESS"] = "unix:\(folder.path)/admin.sock"
        }
        let shell = try ServerProcess("/bin/bash", [folder.file("script")], environment: environment)
        let exit = try await shell.waitForExit()
        func read(_ name: String) -> String { (try? String(contentsOfFile: folder.file(name), encoding: .utf8)) ?? "" }
        let printed = blocks.indices.map { "\($0): " + read("out-\($0)") }.joined()
        #expect(exit == .code(0), "\(shell.log)\n\(printed)\n\(read("lanyard.log").suffix(2000))")
        for (number, page) in expected {
            // The page has the ports by their numbers in the configuration.
            let lines = page.map { line in
                ports.reduce(line) { $0.replacing(":\($1.key)", with: ":\($1.value)") }
            }
            let output = read("out-\(number)").split(separator: "\n").map(String.init)
            #expect(matches(output[...], lines[...]), "block \(number):\n\(output.joined(separator: "\n"))")
        }
    }
}
