import LanyardFoundations

/// What the simulated service's tokens say: everything that the checks need, so that no table is kept of them.
package struct SimulatedToken: Equatable {
    package enum Kind: UInt64 { case access = 0xacce55, refresh = 0x4ef4e5 }

    package var kind: Kind
    /// The service's number of the session.
    package var session: Int
    /// Refresh tokens: which in the session, from 1. Access tokens: how long they live, in nanoseconds, as the service said.
    package var value: Int64
    /// When the service made it.
    package var madeAt: Instant
    /// Access tokens: for which of the user's variants, from 1; 0: for none. `opaque`: the token does not say it.
    package var audience: Int

    package static let opaque = 0xff

    package init(_ kind: Kind, session: Int, value: Int64, madeAt: Instant, audience: Int = 0) {
        self.kind = kind
        self.audience = audience
        self.session = session
        self.value = value
        self.madeAt = madeAt
    }

    package init(_ secret: Secret) {
        self = secret.withBytes { bytes in
            precondition(bytes.count == 64, "a token that the service has not made")
            return SimulatedToken(
                Kind(rawValue: Self.number(bytes, 0) & 0xffff_ffff)!, session: Int(Self.number(bytes, 16)),
                value: Int64(bitPattern: Self.number(bytes, 32)),
                madeAt: Instant(nanoseconds: Int64(bitPattern: Self.number(bytes, 48))),
                audience: Int(Self.number(bytes, 0) >> 32))
        }
    }

    /// As text that may stand in a field: a letter for each four bits.
    package var secret: Secret {
        Secret(capacity: 64) { room in
            Self.write(kind.rawValue | UInt64(audience) << 32, to: room, 0)
            Self.write(UInt64(session), to: room, 16)
            Self.write(UInt64(bitPattern: value), to: room, 32)
            Self.write(UInt64(bitPattern: madeAt.nanoseconds), to: room, 48)
            return 64
        }
    }

    private static func number(_ bytes: UnsafeRawBufferPointer, _ place: Int) -> UInt64 {
        var number: UInt64 = 0
        for byte in bytes[place..<place + 16] { number = number << 4 | UInt64(byte &- 0x61) }
        return number
    }

    private static func write(_ number: UInt64, to room: UnsafeMutableRawBufferPointer, _ place: Int) {
        for digit in 0..<16 { room[place + digit] = 0x61 + UInt8(truncatingIfNeeded: number >> (60 - 4 * digit) & 15) }
    }
}
