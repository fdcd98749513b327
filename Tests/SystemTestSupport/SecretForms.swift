import Foundation
import Testing

/// The ways in which a program may have written a secret down.
struct SecretForms {
    let name: String
    /// Any of them gives the secret away.
    let needles: [[UInt8]]

    static func all(of secret: String) -> [SecretForms] {
        let bytes = Array(secret.utf8)
        let (lower, upper) = (Array("0123456789abcdef".utf8), Array("0123456789ABCDEF".utf8))
        let percents = [
            digits(of: bytes, upper, "%", keeping: unreserved), digits(of: bytes, lower, "%", keeping: unreserved),
            digits(of: bytes, upper, "%"), digits(of: bytes, lower, "%"),
        ]
        let wide = bytes.flatMap { byte -> [UInt8] in [byte, 0] }
        return [
            SecretForms(name: "plain", needles: [bytes]),
            SecretForms(name: "base64", needles: base64(bytes)),
            SecretForms(name: "percent", needles: percents.filter { $0 != bytes }),
            SecretForms(name: "json", needles: json(secret).map { Array($0.utf8) }.filter { $0 != bytes }),
            SecretForms(name: "hex", needles: [digits(of: bytes, lower), digits(of: bytes, upper)]),
            SecretForms(name: "utf-16", needles: [wide]),
        ]
    }

    /// Standard and URL alphabet, wherever in a longer text it may stand: what does not depend on its neighbours.
    private static func base64(_ bytes: [UInt8]) -> [[UInt8]] {
        (0..<3).flatMap { offset -> [[UInt8]] in
            let whole = Data([UInt8](repeating: 0, count: offset) + bytes).base64EncodedString()
            let head = offset == 0 ? 0 : offset + 1
            let tail = (offset + bytes.count) * 8 / 6
            let sure = Array(Array(whole.utf8)[head..<tail])
            return [sure, sure.map(urlDigit)]
        }
    }

    private static func urlDigit(_ digit: UInt8) -> UInt8 {
        switch digit {
        case UInt8(ascii: "+"): UInt8(ascii: "-")
        case UInt8(ascii: "/"): UInt8(ascii: "_")
        default: digit
        }
    }

    /// Each byte as two digits behind the mark, but those to keep.
    ///
    /// Without a format for each of hundreds of thousands of bytes: it allocates, and under the thread sanitizer each allocation of an
    /// array takes a lock of Swift's runtime (architecture.md 9).
    private static func digits(
        of bytes: [UInt8], _ digits: [UInt8], _ mark: StaticString = "",
        keeping isKept: (UInt8) -> Bool = { _ in false }
    ) -> [UInt8] {
        var text: [UInt8] = []
        text.reserveCapacity(bytes.count * 3)
        for byte in bytes {
            guard !isKept(byte) else {
                text.append(byte)
                continue
            }
            if mark.utf8CodeUnitCount > 0 { text.append(mark.utf8Start.pointee) }
            text.append(digits[Int(byte >> 4)])
            text.append(digits[Int(byte & 15)])
        }
        return text
    }

    /// RFC 3986 2.3.
    private static func unreserved(_ byte: UInt8) -> Bool {
        switch byte {
        case 0x30...0x39, 0x41...0x5a, 0x61...0x7a, 0x2d, 0x2e, 0x5f, 0x7e: true
        default: false
        }
    }

    /// With and without an escape where JSON leaves the choice: Lanyard writes neither, Foundation a solidus with one,
    /// others all but ASCII.
    private static func json(_ secret: String) -> Set<String> {
        var forms: Set<String> = []
        for solidus in ["/", "\\/"] {
            for digits in ["%04x", "%04X", nil] {
                var form = ""
                for scalar in secret.unicodeScalars { form += json(scalar, solidus: solidus, digits: digits) }
                forms.insert(form)
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

/// Secrets as other programs write them, without the code that makes the needles of a search.
enum SecretWritings {
    /// Characters that every form writes in its own way.
    static let odd = "pa\"ss\\wörd %+/=~"

    /// The same secret as others write it, without the code that makes the needles.
    static func of(_ secret: String) throws -> [(form: String, text: String)] {
        let bytes = Data(secret.utf8)
        let hex = bytes.map { byte in
            [byte >> 4, byte & 15].map {
                "0123456789abcdef"[String.Index(utf16Offset: Int($0), in: "0123456789abcdef")]
            }
        }.joined()
        let unreserved = CharacterSet(
            charactersIn: "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~")
        let percent = try #require(secret.addingPercentEncoding(withAllowedCharacters: unreserved))
        let ours = secret.replacing("\\", with: "\\\\").replacing("\"", with: "\\\"")
        var writings = [
            ("plain", secret), ("hex", String(hex)), ("hex", String(hex).uppercased()), ("percent", percent),
            ("json", try String(decoding: JSONEncoder().encode(secret), as: UTF8.self)), ("json", ours),
            ("json", ours.replacing("ö", with: "\\u00f6")), ("json", ours.replacing("ö", with: "\\u00F6")),
        ]
        for before in ["", "x", "xx"] {
            let base64 = (Data(before.utf8) + bytes + Data("yyy".utf8)).base64EncodedString()
            writings.append(("base64", base64))
            writings.append(("base64", base64.replacing("+", with: "-").replacing("/", with: "_")))
        }
        return writings
    }
}
