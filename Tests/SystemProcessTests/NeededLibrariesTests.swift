import Foundation
import TestSupport
import Testing

@testable import SystemTestSupport

/// Foundation and its ICU cost 10 MB resident and 44 MB of static binary; one stray import brings them back. libcurl brings 25 libraries,
/// a quarter of the time of a start.
@Suite struct NeededLibrariesTests {
    @Test("the program needs of Foundation only its essentials, and no libcurl", arguments: ["debug", "release"])
    func noFoundation(configuration: String) throws {
        let built = URL(fileURLWithPath: try Products.path("lanyard")).deletingLastPathComponent()
        let program = built.deletingLastPathComponent().appendingPathComponent(configuration)
            .appendingPathComponent("lanyard").path
        // A sanitizer's build folder has no release; `deploy/test` builds both.
        guard configuration == "debug" || FileManager.default.fileExists(atPath: program) else { return }
        let needed = try ELFFile(path: program).neededLibraries
        #expect(needed.contains { $0.hasPrefix("libc.so") })
        #expect(needed.filter { Self.forbidden($0) } == [])
    }

    @Test("libcurl is loaded for an identity that makes calls, and not for tokens of files")
    func libcurlIsLate() async throws {
        let upstream = try RawServer { _ in .response() }
        let lanyard = try await LanyardProcess.start(
            "routes: [{upstream: \"http://\(upstream.endpoint)\"}]", token: "t")
        try await lanyard.untilReady()
        #expect(try Self.hasLoadedLibcurl(lanyard) == false)
        #expect(try await lanyard.process.terminate() == .code(143))

        let emulator = try await EmulatorProcess.start(tokens: "30m")
        let caller = try await LanyardProcess.start(emulator)
        try await caller.untilReady()
        #expect(try Self.hasLoadedLibcurl(caller))
        #expect(try await caller.process.terminate() == .code(143))
    }

    private static func hasLoadedLibcurl(_ lanyard: LanyardProcess) throws -> Bool {
        try ProcFile.text("/proc/\(lanyard.process.pid)/maps").contains("libcurl.so")
    }

    private static func forbidden(_ library: String) -> Bool {
        library.hasPrefix("libFoundation.") || library.hasPrefix("libFoundationInternationalization.")
            || library.hasPrefix("libFoundationNetworking.") || library.hasPrefix("lib_FoundationICU.")
            || library.hasPrefix("libcurl")
    }
}
