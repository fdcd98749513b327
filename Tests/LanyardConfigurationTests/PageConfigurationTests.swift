import Foundation
import TestSupport
import Testing

@testable import LanyardConfiguration

/// The configurations of the pages for a first use.
@Suite struct PageConfigurationTests {
    /// The blocks of YAML of a page.
    private static func blocks(_ page: String) throws -> [String] {
        let text = try String(contentsOfFile: Products.root + "/docs/use/" + page, encoding: .utf8)
        return text.components(separatedBy: "```yaml\n").dropFirst().map { $0.components(separatedBy: "```")[0] }
    }

    @Test(
        "every configuration of a page loads without a finding",
        arguments: [("logins.md", 10), ("agents.md", 3)])
    func loads(_ page: String, _ count: Int) throws {
        let blocks = try Self.blocks(page)
        #expect(blocks.count == count)
        for block in blocks {
            // In the folder of the test, where the secrets are.
            let text = block.replacing("/run/secrets/", with: "").replacing("/var/lib/lanyard/", with: "")
            let files = [
                "client", "client.pem", "app.pem", "refresh-token", "store.key", "password", "token", "model-key",
            ]
            #expect(try Loading.diagnostics(text, files: files) == [], "\(block)")
        }
    }

    @Test("each of the ten questions ends in eight lines")
    func lengths() throws {
        let lengths = try Self.blocks("logins.md").map { $0.split(separator: "\n").count }
        #expect(lengths == Array(repeating: 8, count: 10))
    }
}
