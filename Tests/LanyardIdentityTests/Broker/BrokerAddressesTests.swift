import LanyardFoundations
import TestSupport
import Testing

@testable import LanyardIdentity
@testable import LanyardSettings

/// Which address a call begins with, and which token is a newer one: decisions without I/O.
@Suite struct BrokerAddressesTests {
    private static let all: [BrokerAddresses.Address] = [
        .unix(path: "/a"), .url("https://b.example"), .url("https://c.example"),
    ]
    private static let start = Instant(nanoseconds: 1_000_000_000_000)

    @Test("calls begin with the first address, and for a minute with another one that has responded in its place")
    func order() {
        var addresses = BrokerAddresses(Self.all)
        #expect(addresses.order(at: Self.start) == Self.all)
        addresses.recordResponse(of: Self.all[1], at: Self.start)
        #expect(addresses.order(at: Self.start + .seconds(59)) == [Self.all[1], Self.all[2], Self.all[0]])
        // Its responses in that minute do not prolong it.
        addresses.recordResponse(of: Self.all[1], at: Self.start + .seconds(59))
        #expect(addresses.order(at: Self.start + .seconds(60)) == Self.all)
        // The first one has failed again: another minute.
        addresses.recordResponse(of: Self.all[1], at: Self.start + .seconds(61))
        #expect(addresses.order(at: Self.start + .seconds(120))[0] == Self.all[1])
        #expect(addresses.order(at: Self.start + .seconds(121)) == Self.all)
    }

    @Test("the first address that responds again is the one of all further calls")
    func back() {
        var addresses = BrokerAddresses(Self.all)
        addresses.recordResponse(of: Self.all[2], at: Self.start)
        addresses.recordResponse(of: Self.all[0], at: Self.start + .seconds(70))
        #expect(addresses.order(at: Self.start + .seconds(71)) == Self.all)
        #expect(addresses.order(at: Self.start + .seconds(3600)) == Self.all)
    }

    @Test("a refused token is none the second time; each user and each kind of token by itself")
    func tokens() {
        var tokens = BrokerTokens()
        let alice = BrokerTokens.Key(user: "alice", variant: .plain)
        let orders = BrokerTokens.Key(user: "alice", variant: TokenVariant(audience: "orders"))
        let first = [
            tokens.accept(Tokens.secret("a"), generation: 3, alice),
            tokens.accept(Tokens.secret("b"), generation: 1, orders),
        ]
        #expect(first == [true, true] && tokens.refusedGeneration(alice) == nil)
        tokens.noteRefusal(of: Tokens.secret("a"), alice)
        #expect(tokens.refusedGeneration(alice) == 3 && tokens.refusedGeneration(orders) == nil)
        let (again, newer) = (
            tokens.accept(Tokens.secret("a"), generation: 3, alice),
            tokens.accept(Tokens.secret("c"), generation: 4, alice)
        )
        #expect(!again && newer && tokens.refusedGeneration(alice) == nil)
        // From before a restart: its generation is not known yet.
        tokens.noteRefusal(of: Tokens.secret("z"), orders)
        #expect(tokens.refusedGeneration(orders) == nil)
        let known = tokens.accept(Tokens.secret("z"), generation: 9, orders)
        #expect(!known && tokens.refusedGeneration(orders) == 9)
    }
}
