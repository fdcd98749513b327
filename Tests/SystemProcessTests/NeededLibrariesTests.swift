import Foundation
import TestSupport
import Testing

@testable import SystemTestSupport

/// Foundation and its ICU cost 10 MB resident and 44 MB of static binary; one stray import brings them back.
@Suite struct NeededLibrariesTests {
    @Test("the program needs no more of Foundation than its essentials", arguments: ["debug", "release"])
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

    private static func forbidden(_ library: String) -> Bool {
        library.hasPrefix("libFoundation.") || library.hasPrefix("libFoundationInternationalization.")
            || library.hasPrefix("libFoundationNetworking.") || library.hasPrefix("lib_FoundationICU.")
    }
}
