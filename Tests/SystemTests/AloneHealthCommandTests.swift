import TestSupport
import Testing

/// How long a probe takes at most. Alone, since what else runs on the machine would be measured, too.
@Suite struct AloneHealthCommandTests {
    @Test("a health listener that says nothing is given up within 4.5 s, the start of the process included")
    func inTime() async throws {
        let server = try RawServer { _ in RawResponse([.pause(.seconds(10))]) }
        let started = ContinuousClock.now
        let process = try ServerProcess("lanyard", ["health", "--health", "\(server.endpoint)"])
        let exit = try await process.waitForExit(within: .seconds(10))
        let time = ContinuousClock.now - started
        #expect(exit == .code(1))
        #expect(process.log.contains("no response in time"), "\(process.log)")
        #expect(time < .seconds(4.5))
    }
}
