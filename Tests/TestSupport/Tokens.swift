import Foundation
import LanyardFoundations

/// Tokens and responses of a pretended App Services.
package enum Tokens {
    package static let refresh = "cmVmcmVzaA.cmVmcmVzaA.refresh-canary"

    /// An unsigned JWT of these claims.
    package static func jwt(_ claims: String, signature: String = "access-canary") -> String {
        "eyJhbGciOiJIUzI1NiJ9.\(base64URL(claims)).\(signature)"
    }

    package static func access(lifetime: Int = 1800) -> String {
        jwt(#"{"iat":1700000000,"exp":\#(1_700_000_000 + lifetime)}"#)
    }

    package static func base64URL(_ text: String) -> String {
        Data(text.utf8).base64EncodedString().replacingOccurrences(of: "+", with: "-")
            .replacingOccurrences(of: "/", with: "_").replacingOccurrences(of: "=", with: "")
    }

    package static func secret(_ text: String) -> Secret {
        var text = text
        return text.withUTF8 { Secret(copying: UnsafeRawBufferPointer($0)) }
    }

    package static func text(_ secret: Secret?) -> String? {
        secret?.withBytes { String(decoding: $0, as: UTF8.self) }
    }
}
