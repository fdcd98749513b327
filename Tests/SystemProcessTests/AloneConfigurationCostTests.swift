import Foundation
import TestSupport
import Testing

@testable import SystemTestSupport

/// What a long configuration costs: twice as long takes about twice as long. Alone, since time is measured.
@Suite struct AloneConfigurationCostTests {
    private static let identities = "identities:\n  demo:\n    static: {token_file: token}\n"
    private static let users = "users:\n  alice: {identity: demo}\n"
    private static let head = identities + users
    private static let route = "routes:\n  - upstream: http://127.0.0.1:9\n"

    private static func lines(_ count: Int, _ line: (Int) -> String) -> String { (0..<count).map(line).joined() }

    private static func list(_ count: Int, _ element: (Int) -> String) -> String {
        "[" + (0..<count).map(element).joined(separator: ", ") + "]"
    }

    /// Documents with so many of one thing.
    private static let documents: [(name: String, text: @Sendable (Int) -> String)] = [
        (
            "routes by path",
            {
                head + "routes:\n"
                    + lines($0) { "  - {name: r\($0), match: {path: /r\($0)}, upstream: http://127.0.0.1:9}\n" }
            }
        ),
        (
            "routes by host",
            {
                head + "routes:\n"
                    + lines($0) { "  - {name: r\($0), match: {hosts: [h\($0)]}, upstream: http://127.0.0.1:9}\n" }
            }
        ),
        (
            "routes of unknown users",
            {
                identities + "users:\n" + lines($0 / 2) { "  u\($0): {identity: demo}\n" } + "routes:\n"
                    + lines($0 / 2) {
                        "  - {name: r\($0), user: w\($0), match: {path: /r\($0)}, upstream: http://127.0.0.1:9}\n"
                    }
            }
        ),
        ("users", { identities + "users:\n" + lines($0) { "  u\($0): {identity: demo}\n" } + route }),
        (
            "identities",
            {
                "identities:\n" + lines($0) { "  i\($0): {static: {token_file: token}}\n" } + "users:\n"
                    + lines($0) { "  u\($0): {identity: i\($0)}\n" } + route
            }
        ),
        (
            "unknown identities",
            {
                "identities:\n" + lines($0) { "  i\($0): {static: {token_file: token}}\n" } + "users:\n"
                    + lines($0) { "  u\($0): {identity: \"-----\($0)\"}\n" } + route
            }
        ),
        ("hosts", { head + route + "    match: {hosts: " + list($0) { "h\($0).test" } + "}\n" }),
        (
            "set_headers",
            { head + route + "    set_headers: {" + (0..<$0).map { "X-\($0): v" }.joined(separator: ", ") + "}\n" }
        ),
        ("deny", { head + route + "    deny: " + list($0) { "{path: /h\($0)}" } + "\n" }),
        (
            "allowed_origins and allowed_hosts",
            {
                head + route + "listeners:\n  - {address: '127.0.0.1:0', allowed_origins: "
                    + list($0) { "https://h\($0).test" } + ", allowed_hosts: " + list($0) { "h\($0).test" } + "}\n"
            }
        ),
        (
            "listeners",
            { head + route + "listeners:\n" + lines($0) { "  - {address: 127.0.\($0 / 256).\($0 % 256):7400}\n" } }
        ),
    ]

    /// User and system time of `lanyard check` in seconds.
    private func time(_ text: String) async throws -> Double {
        let folder = try TemporaryFolder()
        try folder.write("token", "t")
        let path = try folder.write("lanyard.yaml", text)
        let command = "\"$0\" check --config \"$1\" >/dev/null 2>&1; times"
        let process = try ServerProcess("/bin/bash", ["-c", command, try Products.path("lanyard"), path])
        #expect(try await process.waitForExit() == .code(0))
        // The last line is that of the children: `1m2.345s 0m0.006s`.
        let numbers = process.output.split(separator: "\n").last?.split(whereSeparator: { "ms ".contains($0) }) ?? []
        let parts = numbers.compactMap { Double($0) }
        guard parts.count == 4 else { throw TestFailure("times: \(process.output)") }
        return parts[0] * 60 + parts[1] + parts[2] * 60 + parts[3]
    }

    @Test(
        "twice the routes, users, identities, hosts, fields or addresses take less than three times as long",
        arguments: documents.indices)
    func linear(_ index: Int) async throws {
        let document = Self.documents[index]
        // What else the machine does only adds: the shortest of some runs is nearest to the cost.
        var (half, whole) = (Double.infinity, Double.infinity)
        for run in 0..<5 where run < 2 || whole >= half * 3 {
            half = min(half, try await time(document.text(6_000)))
            whole = min(whole, try await time(document.text(12_000)))
        }
        let figure = "check of 6,000 and 12,000 \(document.name): \(half) s and \(whole) s of CPU"
        print(figure)
        #expect(whole < half * 3, "\(figure)")
    }
}
