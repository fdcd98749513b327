import LanyardFoundations
import TestSupport
import Testing

@testable import LanyardIdentity
@testable import LanyardSessionInterface
@testable import LanyardSettings

/// The two ends of one token: what the response says, and what the token says (refresh.md 1).
@Suite("Identity: the lifetime of a token") struct TokenLifetimeTests {
    /// The clock of this machine is another one.
    private static let date = "Tue, 01 Jan 2019 10:00:00 GMT"
    private static let seconds: Int64 = 1_546_336_800

    private static func response(_ body: String, date: String?) -> CurlResponse {
        var fields = CurlResponse.Fields(contentType: "application/json")
        fields.date = date
        return CurlResponse(status: 200, fields: fields, body: Tokens.secret(body), requestStartedAt: .now)
    }

    /// Of an OAuth server's token, and of one of App Services, which has no configured lifetime.
    private static func lifetimes(
        _ claims: String, stated: String?, date: String?, configured: Duration? = nil
    ) -> [Duration?] {
        let member = stated.map { #","expires_in":\#($0)"# } ?? ""
        let body =
            #"{"access_token":"\#(Tokens.jwt(claims))","refresh_token":"\#(Tokens.refresh)","user_id":"u"\#(member)}"#
        let oauth = OAuthGrant.make(
            .login, response(body, date: date), keepsRefreshToken: true, lifetime: configured, profile: .generic)
        let appServices = AppServicesGrant.make(.login, response(body, date: date), secrets: [])
        return [try? oauth.get().lifetime] + (configured == nil ? [try? appServices.get().lifetime] : [])
    }

    @Test("the lesser of expires_in and exp − Date; without a Date of exp − iat; never by this machine's clock")
    func lesser() {
        let (now, iat) = (Self.seconds, Self.seconds - 600)
        let both = #"{"iat":\#(iat),"exp":\#(now + 3000)}"#
        let end = #"{"exp":\#(now + 3000)}"#
        // A gateway has given out a token that is ten minutes old.
        let rows: [(claims: String, stated: String?, date: String?, expected: Int)] = [
            (both, "3600", Self.date, 3000), (both, nil, Self.date, 3000), (both, "7200", nil, 3600),
            (both, "7200", "nonsense", 3600), (both, nil, nil, 3600),
            (end, "3600", Self.date, 3000), (end, "60", Self.date, 60), (end, nil, Self.date, 3000),
            (end, "7200", nil, 7200), (end, nil, nil, 300),
            (#"{"iat":\#(iat)}"#, "7200", Self.date, 7200), ("{}", "7200", Self.date, 7200),
            ("{}", nil, Self.date, 300),
        ]
        for row in rows {
            for lifetime in Self.lifetimes(row.claims, stated: row.stated, date: row.date) {
                #expect(lifetime == .seconds(row.expected), "\(row)")
            }
        }
    }

    @Test("a Date behind exp says that one of both clocks is wrong: it counts as missing, and expires_in holds")
    func dateBehindEnd() {
        let now = Self.seconds
        let rows: [(claims: String, stated: String?, expected: Int)] = [
            (#"{"exp":\#(now)}"#, "3600", 3600), (#"{"exp":\#(now - 86_400)}"#, "3600", 3600),
            (#"{"exp":0}"#, "60", 60),
            (#"{"iat":\#(now - 7200),"exp":\#(now - 3600)}"#, "7200", 3600),
            (#"{"iat":\#(now),"exp":\#(now - 3600)}"#, "7200", 7200),
            (#"{"iat":\#(now - 7200),"exp":\#(now - 3600)}"#, nil, 3600),
            (#"{"exp":-9223372036854775808}"#, "60", 60), (#"{"exp":9223372036854775807}"#, "60", 60),
        ]
        for row in rows {
            let found = Self.lifetimes(row.claims, stated: row.stated, date: Self.date)
            #expect(found[0] == .seconds(row.expected), "\(row)")
        }
    }

    @Test(
        "a claim that is no number counts as absent",
        arguments: ["null", "\"\"", "\"1546340400\"", "\"x\"", "true", "{}", #"{"a":[1]}"#, "[]", "[1546336900]"])
    func noNumber(_ value: String) {
        let now = Self.seconds
        let hour: [Duration?] = [.seconds(3600), .seconds(3600)]
        for claims in [
            #"{"exp":\#(value),"iat":\#(now)}"#, #"{"exp":\#(value),"iat":\#(value)}"#, #"{"iat":\#(value)}"#,
        ] {
            #expect(Self.lifetimes(claims, stated: "3600", date: Self.date) == hour, "\(claims)")
        }
        let dated = #"{"iat":\#(value),"exp":\#(now + 60)}"#
        #expect(Self.lifetimes(dated, stated: "3600", date: Self.date) == [.seconds(60), .seconds(60)])
        #expect(Self.lifetimes(dated, stated: "3600", date: nil) == hour)
    }

    @Test("token_lifetime stands for an expires_in that is missing or 0; the token's own end is the lesser there, too")
    func configured() {
        let claims = #"{"exp":\#(Self.seconds + 3000)}"#
        func lifetime(_ claims: String, _ stated: String?, _ configured: Int) -> Duration? {
            Self.lifetimes(claims, stated: stated, date: Self.date, configured: .seconds(configured))[0]
        }
        for stated in [nil, "0", "\"0\"", "-1", "null"] {
            #expect(lifetime(claims, stated, 900) == .seconds(900))
            #expect(lifetime(claims, stated, 9000) == .seconds(3000))
            #expect(lifetime("{}", stated, 900) == .seconds(900))
        }
        #expect(lifetime("{}", "20", 900) == .seconds(20))
        #expect(Self.lifetimes("{}", stated: "0", date: Self.date) == [nil, nil])
    }
}
