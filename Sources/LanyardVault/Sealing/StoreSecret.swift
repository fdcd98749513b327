import Glibc
import LanyardFoundations
import LanyardSessionInterface
import LanyardSettings

/// The secret that seals the store: a key, or a passphrase from which scrypt derives one.
package struct StoreSecret: Sendable {
    /// A key is used as it is, a passphrase is stretched.
    package enum Kind: Equatable, Sendable { case key, passphrase }

    /// In bytes. A passphrase has no such bound, because scrypt protects it.
    package static let keyBytesMin = 32

    /// How the secret becomes a key.
    package let kind: Kind
    /// The bytes of the file.
    package let secret: Secret

    package init(_ kind: Kind, _ secret: Secret) {
        self.kind = kind
        self.secret = secret
    }

    /// Reads the file that the configuration names. Blocks as long as the disk does.
    ///
    /// A key's bytes are used as they are. One final newline is cut only if all other bytes are printable ASCII, because a key of random
    /// bytes may end in 0x0a. A passphrase's final newline is always cut. A byte order mark is part of both: without it a store that was
    /// sealed with it could not be opened.
    ///
    /// - Throws: `unfit`, with path and remedy.
    package static func read(_ file: StoreSettings.KeyFile) throws(StoreError) -> StoreSecret {
        do throws(SecretFile.ReadError) {
            switch file {
            case .key(let path):
                let key = withoutTextNewline(try SecretFile.readWhole(path).secret)
                guard key.count >= keyBytesMin else {
                    throw .unfit(
                        "holds \(key.count) bytes, and a key has at least \(keyBytesMin); make one with head -c 32 /dev/urandom"
                    )
                }
                return StoreSecret(.key, key)
            case .passphrase(let path):
                let passphrase = SecretText.withoutLineEnd(try SecretFile.readWhole(path).secret)
                guard passphrase.count > 0 else { throw .empty }
                return StoreSecret(.passphrase, passphrase)
            }
        } catch {
            let message =
                error == .system(ENOENT)
                ? "\(file.path) does not exist; put the \(file.kindName) there" : error.message(path: file.path)
            throw StoreError(.unfit, message: "the store's \(file.kindName) cannot be used: \(message)")
        }
    }

    private static func withoutTextNewline(_ key: Secret) -> Secret {
        key.withBytes { bytes in
            guard bytes.last == UInt8(ascii: "\n") else { return key }
            let rest = UnsafeRawBufferPointer(rebasing: bytes.dropLast())
            return rest.allSatisfy { (0x20...0x7e).contains($0) } ? Secret(copying: rest) : key
        }
    }
}
