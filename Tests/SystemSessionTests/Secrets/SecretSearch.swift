import Foundation

@testable import SystemTestSupport

/// Finds secrets in what a program has said: whole ones and pieces of them, in every form of `SecretForms`.
struct SecretSearch {
    /// Bytes of a piece that gives a secret away. A shorter secret is looked for as a whole.
    static let pieceBytes = 12

    /// A secret that was found. It names neither the secret nor its neighbours.
    struct Find: Hashable, Sendable, CustomStringConvertible {
        let secret: String
        let form: String
        let place: String

        var description: String { "\(secret) as \(form) in \(place)" }
    }

    private struct Needle {
        let secret: String
        let form: String
        let bytes: [UInt8]
    }

    /// Needles by their first eight bytes; no needle is shorter.
    private var needles: [UInt64: [Needle]] = [:]
    /// A bit for each hash of those bytes: most places of a text need no further look.
    private var hashes = [Bool](repeating: false, count: 1 << 20)

    /// - Parameter secrets: by a name that may be shown. Each has at least eight bytes.
    init(_ secrets: [(name: String, secret: String)]) {
        var seen: Set<String> = []
        for (name, secret) in secrets {
            for piece in Self.pieces(of: secret) where seen.insert(piece).inserted {
                for form in SecretForms.all(of: piece) {
                    for bytes in form.needles { add(Needle(secret: name, form: form.name, bytes: bytes)) }
                }
            }
        }
    }

    private mutating func add(_ needle: Needle) {
        precondition(needle.bytes.count >= 8, "a needle of \(needle.bytes.count) bytes")
        let key = needle.bytes.withUnsafeBytes { $0.loadUnaligned(as: UInt64.self) }
        needles[key, default: []].append(needle)
        hashes[Self.hash(key)] = true
    }

    private static func hash(_ key: UInt64) -> Int { Int(truncatingIfNeeded: (key &* 0x9e37_79b9_7f4a_7c15) >> 44) }

    /// Every piece that begins and ends at whole characters.
    private static func pieces(of secret: String) -> [String] {
        let scalars = Array(secret.unicodeScalars)
        var pieces: [String] = []
        for start in scalars.indices {
            var piece = ""
            var end = start
            while piece.utf8.count < pieceBytes, end < scalars.count {
                piece.unicodeScalars.append(scalars[end])
                end += 1
            }
            guard piece.utf8.count >= pieceBytes else { break }
            pieces.append(piece)
        }
        return pieces.isEmpty ? [secret] : pieces
    }

    /// What a text gives away; each secret and form once.
    func finds(in text: [UInt8], of place: String) -> Set<Find> {
        var found: Set<Find> = []
        text.withUnsafeBytes { bytes in
            var index = 0
            while index + 8 <= bytes.count {
                let key = bytes.loadUnaligned(fromByteOffset: index, as: UInt64.self)
                if hashes[Self.hash(key)], let candidates = needles[key] {
                    for needle in candidates where bytes[index...].starts(with: needle.bytes) {
                        found.insert(Find(secret: needle.secret, form: needle.form, place: place))
                    }
                }
                index += 1
            }
        }
        return found
    }

    func finds(in text: String, of place: String) -> Set<Find> { finds(in: Array(text.utf8), of: place) }
}
