/// A secret that callers send in a field: the capability of a listener, the token of the admin API. One rule for both.
package enum FieldSecret {
    /// Bytes of the shortest one: 16 random bytes in hexadecimal.
    package static let bytesMin = 32
    /// Bytes of the longest one. A head has room for it whatever `limits.header_bytes_max` is.
    package static let bytesMax = 1024

    private static let remedy = "openssl rand -hex 32 makes a good one"
    /// Also of an empty file.
    package static let tooShort = SecretFile.ReadError.unfit(
        "holds fewer than \(bytesMin) characters, which could be guessed; \(remedy)")

    /// Why the content of a secret's file cannot be used; nil: it can.
    ///
    /// Bytes other than visible ASCII are refused: readers trim blanks, or refuse the field, so that no caller could show the secret.
    package static func error(of secret: Secret) -> SecretFile.ReadError? {
        switch secret.count {
        case ..<bytesMin: tooShort
        case (bytesMax + 1)...: .unfit("holds more than \(bytesMax) characters; \(remedy)")
        case _ where !secret.isVisibleASCII:
            .unfit("\(SecretText.finding(in: secret, as: .token) ?? "holds a byte that no field value has"); \(remedy)")
        default: nil
        }
    }

    /// The same for a file as it is now; nil also if it cannot be read at present. Blocks as long as the disk does.
    package static func error(inFile path: String) -> SecretFile.ReadError? {
        do throws(SecretFile.ReadError) {
            return error(of: SecretText.token(in: try SecretFile.read(path).secret))
        } catch {
            return switch error {
            case .empty: tooShort
            case .unfit, .tooLarge: error
            default: nil
            }
        }
    }
}

extension Secret {
    /// One word of visible ASCII: what every reader of a field or a line takes unchanged.
    package var isVisibleASCII: Bool {
        withBytes { bytes in !bytes.isEmpty && bytes.allSatisfy { (0x21...0x7e).contains($0) } }
    }
}
