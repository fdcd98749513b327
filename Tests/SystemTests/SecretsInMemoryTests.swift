import Foundation
import Glibc
import TestSupport
import Testing

/// What a look into the running program's memory would find.
@Suite struct SecretsInMemoryTests {
    @Test(
        "after a login and refreshes the memory holds the password nowhere, and the refresh token once",
        .enabled(if: getuid() == 0, "needs root, to read another process's memory"),
        .disabled(if: Sanitizer.isOn, "a sanitizer's shadow is too large to search"))
    func memory() async throws {
        let emulator = try await EmulatorProcess.start(tokens: "2s")
        let lanyard = try await LanyardProcess.start(emulator)
        try await lanyard.untilReady()
        try await eventually("two refreshes have been made") { try await emulator.calls("refresh") >= 2 }
        #expect(try await lanyard.get("/protected/x").status == 200)
        let memory = try ProcessMemory(lanyard.process.pid)
        #expect(memory.count(of: "correct-horse") == 0)
        let tokens = memory.tokens().compactMap { try? Self.claims($0) }
        #expect(tokens.count { $0["typ"].string == "refresh" } == 1)
        // Buffers of requests may still hold the token of the last one; older ones are gone.
        let access = Set(tokens.filter { $0["typ"].string == "access" }.compactMap { $0["jti"].string })
        #expect(1...2 ~= access.count, "\(access.count) access tokens")
    }

    private static func claims(_ token: [UInt8]) throws -> JSON {
        let payload = String(decoding: token.split(separator: UInt8(ascii: "."))[1], as: UTF8.self)
        let plain = payload.replacing("-", with: "+").replacing("_", with: "/")
        let padded = plain + String(repeating: "=", count: (4 - plain.utf8.count % 4) % 4)
        guard let data = Data(base64Encoded: padded) else { throw TestFailure("no base64url") }
        return try JSON(data)
    }
}

/// A copy of everything that another process could write to.
private struct ProcessMemory {
    private var regions: [[UInt8]] = []

    init(_ pid: pid_t) throws {
        let descriptor = open("/proc/\(pid)/mem", O_RDONLY | O_CLOEXEC)
        guard descriptor >= 0 else { throw TestFailure("/proc/\(pid)/mem: errno \(errno)") }
        defer { close(descriptor) }
        for line in try String(contentsOfFile: "/proc/\(pid)/maps", encoding: .utf8).split(separator: "\n") {
            let words = line.split(separator: " ")
            let ends = words[0].split(separator: "-").compactMap { Int($0, radix: 16) }
            guard words[1].hasPrefix("rw"), ends.count == 2 else { continue }
            regions.append(Self.read(descriptor, ends[0], ends[1]))
        }
    }

    /// Page by page: one that cannot be read ends nothing.
    private static func read(_ descriptor: CInt, _ start: Int, _ end: Int) -> [UInt8] {
        var bytes: [UInt8] = []
        var page = [UInt8](repeating: 0, count: 1 << 20)
        for place in stride(from: start, to: end, by: page.count) {
            let count = pread(descriptor, &page, min(page.count, end - place), off_t(place))
            if count > 0 { bytes += page.prefix(count) }
        }
        return bytes
    }

    func count(of text: String) -> Int { regions.reduce(0) { $0 + Self.places(of: Array(text.utf8), in: $1).count } }

    /// Whatever begins like a JWT and has three parts.
    func tokens() -> [[UInt8]] {
        regions.flatMap { region in
            Self.places(of: Array("eyJ".utf8), in: region).compactMap { place in
                let token = region[place...].prefix { byte in
                    switch byte {
                    case 0x30...0x39, 0x41...0x5a, 0x61...0x7a, 0x2d, 0x2e, 0x5f: true
                    default: false
                    }
                }
                let parts = token.split(separator: UInt8(ascii: "."))
                return parts.count == 3 && parts.allSatisfy { $0.count > 8 } ? Array(token) : nil
            }
        }
    }

    private static func places(of needle: [UInt8], in region: [UInt8]) -> [Int] {
        region.withUnsafeBytes { bytes in
            var places: [Int] = []
            var place = 0
            let last = bytes.count - needle.count
            while place <= last, let found = memchr(bytes.baseAddress! + place, CInt(needle[0]), last - place + 1) {
                let offset = UnsafeRawPointer(found) - bytes.baseAddress!
                if memcmp(found, needle, needle.count) == 0 { places.append(offset) }
                place = offset + 1
            }
            return places
        }
    }
}
