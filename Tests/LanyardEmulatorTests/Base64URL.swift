import Foundation
import TestSupport

enum Base64URL {
    static func decode(_ text: String) throws -> [UInt8] {
        var plain = text.replacing("-", with: "+").replacing("_", with: "/")
        plain += String(repeating: "=", count: (4 - plain.utf8.count % 4) % 4)
        guard let data = Data(base64Encoded: plain) else { throw TestFailure("no base64url: \(text)") }
        return [UInt8](data)
    }
}
