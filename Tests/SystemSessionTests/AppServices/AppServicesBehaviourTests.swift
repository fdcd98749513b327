import TestSupport
import Testing

@testable import SystemTestSupport

/// An independent client, in Python and from the protocol's description alone, is the second reader of the emulator and of Lanyard's
/// requests (docs/reference/app-services-behaviours.md 10).
@Suite(.enabled(if: PythonProcess.isInstalled, "needs /usr/bin/python3"))
struct AppServicesBehaviourTests {
    @Test("the emulator does what the protocol says, asked as core and as realm-web ask", arguments: ["core", "web"])
    func behaviours(_ profile: String) async throws {
        let bench = try await AppServicesBench.start()
        let lines = try await bench.check("behaviours.py", ["--profile", profile])
        for line in lines { #expect(line.hasPrefix("ok "), "\(line)") }
        #expect(lines.count >= 90, "\(lines.count) checks")
    }

    @Test("a deviation that is planted in a response or in a request is found")
    func planted() async throws {
        let bench = try await AppServicesBench.start()
        let lines = try await bench.check("planted.py")
        for line in lines { #expect(line.hasPrefix("ok "), "\(line)") }
        #expect(lines.count(where: { $0.hasPrefix("ok response, ") }) >= 12)
        #expect(lines.count(where: { $0.hasPrefix("ok request, ") }) >= 8)
    }
}
