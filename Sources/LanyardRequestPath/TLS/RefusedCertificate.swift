import COpenSSL
import LanyardFoundations

/// The certificate of a peer's chain that the verification has refused, for messages.
package struct RefusedCertificate: Equatable, Sendable {
    /// Its first DNS name, else its common name: printable ASCII, 64 bytes at most. Empty: it has none.
    package let name: String
    /// nil: the time cannot be read.
    package let validFrom: WallTime?
    /// nil: the time cannot be read.
    package let validUntil: WallTime?

    package init(name: String, validFrom: WallTime?, validUntil: WallTime?) {
        self.name = name
        self.validFrom = validFrom
        self.validUntil = validUntil
    }

    init?(_ raw: lanyard_tls_refused_certificate) {
        guard raw.is_known else { return nil }
        let name = withUnsafeBytes(of: raw.name) { String(decoding: $0.prefix(Int(raw.name_count)), as: UTF8.self) }
        self.init(name: name, validFrom: Self.time(raw.valid_from), validUntil: Self.time(raw.valid_until))
    }

    private static func time(_ seconds: Int64) -> WallTime? { seconds == .min ? nil : WallTime(seconds: seconds) }

    /// What a message about the error adds: the name, and the time that is the reason. Only where the authority is trusted, so that an
    /// unknown peer chooses no words of a message.
    func words(for error: TLSError) -> String {
        let facts: [String?] =
            switch error {
            case .expired: [quotedName, validUntil.map { "it ended at \(Timestamp.text($0))" }]
            case .notYetValid: [quotedName, validFrom.map { "it begins at \(Timestamp.text($0))" }]
            case .nameMismatch, .wrongPurpose: [quotedName]
            default: []
            }
        let words = facts.compactMap(\.self).joined(separator: ", ")
        return words.isEmpty ? "" : " (\(words))"
    }

    private var quotedName: String? { name.isEmpty ? nil : "\"\(name)\"" }
}
