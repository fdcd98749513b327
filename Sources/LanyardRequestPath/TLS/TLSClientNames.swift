import COpenSSL
import Glibc
import LanyardFoundations

/// The names of clients that may call (`client_names`). A client's certificate must have one of them as a subject alternative name.
///
/// A name is compared as a whole; there are no wildcards. `DNS:`, `URI:`, `email:` or `IP:` before a name limits it to that kind. Without a
/// prefix a name may be of any kind.
package struct TLSClientNames: Equatable, Sendable {
    private struct Name: Equatable {
        let kinds: CInt
        let bytes: [UInt8]
    }

    private let names: [Name]
    /// A text that differs for different names.
    let fingerprint: String

    /// - Returns: nil: one of the names is empty, or is no address although its prefix says so.
    package init?(_ texts: [String]) {
        var names: [Name] = []
        for text in texts {
            guard let parsed = Self.parse(text) else { return nil }
            names += parsed
        }
        self.names = names
        fingerprint = texts.sorted().joined(separator: "\u{0}")
    }

    package var isEmpty: Bool { names.isEmpty }

    /// Whether the certificate (`X509 *`) has one of the names, or any is allowed.
    package func allow(_ certificate: OpaquePointer) -> Bool {
        names.isEmpty
            || names.contains { name in
                name.bytes.withUnsafeBytes {
                    lanyard_x509_has_name(certificate, name.kinds, $0.baseAddress, $0.count) == 1
                }
            }
    }

    private static func parse(_ text: String) -> [Name]? {
        let kinds: [(prefix: String, bit: CInt)] = [
            ("DNS:", CInt(LANYARD_SAN_DNS)), ("URI:", CInt(LANYARD_SAN_URI)),
            ("email:", CInt(LANYARD_SAN_EMAIL)),
        ]
        if text.hasPrefix("IP:") {
            return TLSServerName.address(String(text.dropFirst(3))).map { [Name(kinds: addressBit, bytes: $0)] }
        }
        for kind in kinds where text.hasPrefix(kind.prefix) {
            let name = text.dropFirst(kind.prefix.count)
            guard !name.isEmpty else { return nil }
            let bytes = kind.bit == CInt(LANYARD_SAN_DNS) ? hostBytes(name) : Array(name.utf8)
            return [Name(kinds: kind.bit, bytes: bytes)]
        }
        guard !text.isEmpty else { return nil }
        let others = CInt(LANYARD_SAN_URI) | CInt(LANYARD_SAN_EMAIL)
        let address = TLSServerName.address(text).map { [Name(kinds: addressBit, bytes: $0)] } ?? []
        return [
            Name(kinds: CInt(LANYARD_SAN_DNS), bytes: hostBytes(text)), Name(kinds: others, bytes: Array(text.utf8)),
        ] + address
    }

    /// Certificates have names without the root's dot (RFC 5280 4.2.1.6).
    private static func hostBytes(_ name: some StringProtocol) -> [UInt8] {
        Array((CanonicalHost(String(name))?.text ?? String(name)).utf8)
    }

    private static let addressBit = CInt(LANYARD_SAN_IP)
}
