import Foundation
import Testing

/// The ways in which a program may have written a secret down.
struct SecretForms {
    let name: String
    /// Any of them gives the secret away.
    let needles: [[UInt8]]

    static func all(of secret: String) -> [SecretForms] {
        let bytes = Array(secret.utf8)
        let hex = bytes.map { String(format: "%02x", $0) }.joined()
        let percent = secret.utf8.map { Self.percent($0, "%02X") }.joined()
        let lowPercent = secret.utf8.map { Self.percent($0, "%02x") }.joined()
        let everyPercent = bytes.map { String(format: "%%%02X", $0) }.joined()
        let wide = bytes.flatMap { byte -> [UInt8] in [byte, 0] }
        return [
            SecretForms(name: "plain", needles: [bytes]),
            SecretForms(name: "base64", needles: base64(bytes)),
            SecretForms(
                name: "percent",
                needles: [percent, lowPercent, everyPercent, everyPercent.lowercased()].map { Array($0.utf8) }
                    .filter { $0 != bytes }),
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

    private static func percent(_ byte: UInt8, _ digits: String) -> String {
        switch byte {
        case 0x30...0x39, 0x41...0x5a, 0x61...0x7a, 0x2d, 0x2e, 0x5f, 0x7e: String(UnicodeScalar(byte))
        default: "%" + String(format: digits, byte)
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
