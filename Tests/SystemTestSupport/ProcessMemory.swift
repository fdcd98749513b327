import Foundation
import Glibc
import TestSupport

/// A copy of everything in a process that can be written to: what a look into its memory would find. Root only.
struct ProcessMemory {
    private var regions: [[UInt8]] = []

    init(_ pid: pid_t) throws {
        let descriptor = open("/proc/\(pid)/mem", O_RDONLY | O_CLOEXEC)
        guard descriptor >= 0 else { throw TestFailure("/proc/\(pid)/mem: errno \(errno)") }
        defer { close(descriptor) }
        for line in try ProcFile.text("/proc/\(pid)/maps").split(separator: "\n") {
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

    func count(of text: String) -> Int { count(of: Array(text.utf8)) }

    func count(of bytes: [UInt8]) -> Int { regions.reduce(0) { $0 + Self.places(of: bytes, in: $1).count } }

    /// The forms in which a secret is in the memory, by their names.
    func forms(of secret: String) -> Set<String> {
        Set(SecretForms.all(of: secret).filter { form in form.needles.contains { count(of: $0) > 0 } }.map(\.name))
    }

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
