import COpenSSL
import Glibc
import LanyardFoundations

/// The name that an upstream's certificate must have.
package enum TLSServerName: Equatable, Sendable {
    /// Sent as SNI (RFC 6066 3).
    case dns(String)
    /// 4 or 16 bytes. SNI does not carry addresses.
    case address([UInt8])

    /// - Parameter host: a host of a URL; v6 addresses without brackets. nil: it has characters that no host has.
    package init?(host: String) {
        // The root's dot is no part of SNI (RFC 6066 3) and of a certificate's name.
        guard let name = CanonicalHost(host)?.text else { return nil }
        if let bytes = Self.address(name) {
            self = .address(bytes)
            return
        }
        let isHost = name.utf8.allSatisfy { byte in
            switch byte {
            case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
                UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "-"), UInt8(ascii: "."), UInt8(ascii: "_"):
                true
            default: false
            }
        }
        guard isHost else { return nil }
        self = .dns(name)
    }

    /// The bytes of an address literal.
    static func address(_ text: String) -> [UInt8]? {
        for (family, count) in [(AF_INET, 4), (AF_INET6, 16)] {
            var bytes = [UInt8](repeating: 0, count: count)
            if inet_pton(family, text, &bytes) == 1 { return bytes }
        }
        return nil
    }

    /// Demands the name of every certificate that the context verifies.
    func install(in context: OpaquePointer) throws(TLSFileError) {
        let parameters = SSL_CTX_get0_param(context)
        let isSet =
            switch self {
            case .dns(let name): lanyard_tls_require_host(parameters, name, name.utf8.count)
            case .address(let bytes): X509_VERIFY_PARAM_set1_ip(parameters, bytes, bytes.count)
            }
        guard isSet == 1 else { throw .badName }
    }
}
