import Foundation

@testable import LanyardFoundations

/// Tokens and answers of a pretended App Services.
enum Tokens {
    static let refresh = "cmVmcmVzaA.cmVmcmVzaA.refresh-canary"

    /// An unsigned JWT of these claims.
    static func jwt(_ claims: String, signature: String = "access-canary") -> String {
        "eyJhbGciOiJIUzI1NiJ9.\(base64URL(claims)).\(signature)"
    }

    static func access(lifetime: Int = 1800) -> String {
        jwt(#"{"iat":1700000000,"exp":\#(1_700_000_000 + lifetime)}"#)
    }

    static func base64URL(_ text: String) -> String {
        Data(text.utf8).base64EncodedString().replacingOccurrences(of: "+", with: "-")
            .replacingOccurrences(of: "/", with: "_").replacingOccurrences(of: "=", with: "")
    }

    static func secret(_ text: String) -> Secret {
        var text = text
        return text.withUTF8 { Secret(copying: UnsafeRawBufferPointer($0)) }
    }

    static func text(_ secret: Secret?) -> String? {
        secret?.withBytes { String(decoding: $0, as: UTF8.self) }
    }
}
