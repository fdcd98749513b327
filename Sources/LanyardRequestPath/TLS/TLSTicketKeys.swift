import COpenSSL
import Glibc
import LanyardFoundations

/// The keys under which a listener's session tickets are sealed (RFC 5077 4). They change, so that a key that leaks opens few sessions.
///
/// Shared by all shards and by the contexts of one listener, behind a lock that handshakes alone take.
package final class TLSTicketKeys: Sendable {
    /// A name of 16 bytes, a key of 32 for AES-256-CBC, and one of 32 for HMAC-SHA256.
    private static let keyBytes = 16 + 32 + 32

    private struct Keys {
        var current: Secret
        var previous: Secret?
        var since: Instant
    }

    private let keys: Guarded<Keys>
    private let rotationInterval: Duration
    private let clock: @Sendable () -> Instant

    /// - Parameter rotationInterval: after it new tickets get another key; tickets of the previous key are accepted for as long again.
    package init(rotationInterval: Duration = .seconds(12 * 3600), clock: @escaping @Sendable () -> Instant = { .now })
    {
        self.rotationInterval = rotationInterval
        self.clock = clock
        keys = Guarded(Keys(current: Self.newKey(), previous: nil, since: clock()))
    }

    private static func newKey() -> Secret {
        Secret(capacity: keyBytes) { room in
            precondition(
                RAND_bytes(room.baseAddress?.assumingMemoryBound(to: UInt8.self), CInt(keyBytes)) == 1,
                "no random bytes available")
            return keyBytes
        }
    }

    /// The keys of now. A listener without handshakes for a long time forgets both.
    private func present() -> (current: Secret, previous: Secret?) {
        let now = clock()
        return keys.withLock { keys in
            if keys.since + rotationInterval <= now {
                let isRecent = keys.since + rotationInterval * 2 > now
                keys = Keys(current: Self.newKey(), previous: isRecent ? keys.current : nil, since: now)
            }
            return (keys.current, keys.previous)
        }
    }

    /// OpenSSL's callback for one ticket (SSL_CTX_set_tlsext_ticket_key_evp_cb(3)).
    ///
    /// - Returns: 1: done; 2: done, and the client gets a new ticket; 0: the ticket's key is unknown, and the handshake is a full one; -1:
    ///   failed.
    func protect(
        _ name: UnsafeMutablePointer<UInt8>, _ iv: UnsafeMutablePointer<UInt8>, _ cipher: OpaquePointer?,
        _ mac: OpaquePointer?, encrypts: Bool
    ) -> CInt {
        let (current, previous) = present()
        if encrypts {
            guard RAND_bytes(iv, 16) == 1 else { return -1 }
            current.withBytes { name.update(from: $0.baseAddress!.assumingMemoryBound(to: UInt8.self), count: 16) }
            return Self.protect(current, iv, cipher, mac, encrypts: true)
        }
        for (key, result) in [(current, CInt(1)), (previous, 2)] {
            guard let key, key.withBytes({ memcmp($0.baseAddress!, name, 16) == 0 }) else { continue }
            return Self.protect(key, iv, cipher, mac, encrypts: false) == 1 ? result : -1
        }
        return 0
    }

    private static func protect(
        _ key: Secret, _ iv: UnsafeMutablePointer<UInt8>, _ cipher: OpaquePointer?, _ mac: OpaquePointer?,
        encrypts: Bool
    ) -> CInt {
        key.withBytes { bytes in
            let start = bytes.baseAddress!.assumingMemoryBound(to: UInt8.self)
            return lanyard_tls_protect_ticket(cipher, mac, start + 16, start + 48, iv, encrypts ? 1 : 0)
        }
    }
}
