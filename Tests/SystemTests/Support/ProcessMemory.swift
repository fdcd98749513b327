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

/// The ways in which a program may have written a secret down.
struct SecretForms {
    let name: String
    /// Any of them gives the secret away.
    let needles: [[UInt8]]

    static func all(of secret: String) -> [SecretForms] {
        let bytes = Array(secret.utf8)
        let hex = bytes.map { String(format: "%02x", $0) }.joined()
        let percent = secret.utf8.map { Self.percent($0) }.joined()
        let everyPercent = bytes.map { String(format: "%%%02X", $0) }.joined()
        let wide = bytes.flatMap { byte -> [UInt8] in [byte, 0] }
        return [
            SecretForms(name: "plain", needles: [bytes]),
            SecretForms(name: "base64", needles: base64(bytes)),
            SecretForms(
                name: "percent",
                needles: [percent, everyPercent, everyPercent.lowercased()].map { Array($0.utf8) }.filter {
                    $0 != bytes
                }),
            SecretForms(name: "json", needles: json(secret).map { Array($0.utf8) }.filter { $0 != bytes }),
            SecretForms(name: "hex", needles: [hex, hex.uppercased()].map { Array($0.utf8) }),
            SecretForms(name: "utf-16", needles: [wide]),
        ]
    }

    /// Standard and URL alphabet, wherever in a longer text it may stand: what does not depend on its neighbours.
    private static func base64(_ bytes: [UInt8]) -> [[UInt8]] {
        (0..<3).flatMap { offset -> [[UInt8]] in
            let whole = Data([UInt8](repeating: 0, count: offset) + bytes).base64EncodedString()
            let head = offset == 0 ? 0 : offset + 1
            let tail = (offset + bytes.count) * 8 / 6
            let sure = String(Array(whole)[head..<tail])
            let url = sure.replacing("+", with: "-").replacing("/", with: "_")
            return [Array(sure.utf8), Array(url.utf8)]
        }
    }

    private static func percent(_ byte: UInt8) -> String {
        switch byte {
        case 0x30...0x39, 0x41...0x5a, 0x61...0x7a, 0x2d, 0x2e, 0x5f, 0x7e: String(UnicodeScalar(byte))
        default: "%" + String(format: "%02X", byte)
        }
    }

    /// With and without an escape where JSON leaves the choice: Lanyard writes neither, Foundation a solidus with one,
    /// others all but ASCII.
    private static func json(_ secret: String) -> Set<String> {
        var forms: Set<String> = []
        for solidus in ["/", "\\/"] {
            for digits in ["%04x", "%04X", nil] {
                forms.insert(secret.unicodeScalars.map { json($0, solidus: solidus, digits: digits) }.joined())
            }
        }
        return forms
    }

    private static func json(_ scalar: Unicode.Scalar, solidus: String, digits: String?) -> String {
        switch scalar {
        case "\"": return "\\\""
        case "\\": return "\\\\"
        case "/": return solidus
        default:
            guard !scalar.isASCII, let digits else { return String(scalar) }
            return String(scalar).utf16.map { "\\u" + String(format: digits, $0) }.joined()
        }
    }
}
