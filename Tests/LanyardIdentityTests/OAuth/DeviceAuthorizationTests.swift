import LanyardFoundations
import TestSupport
import Testing

@testable import LanyardIdentity
@testable import LanyardSessionInterface
@testable import LanyardSettings

/// The polling of a device login in virtual time (RFC 8628 §3.5).
@Suite("OAuth: device authorization, decisions") struct DeviceAuthorizationTests {
    private let start = Instant(nanoseconds: 1_000_000_000_000)

    private func authorization(lifetime: Int64 = 600, interval: Int64 = 5) -> DeviceAuthorization {
        DeviceAuthorization(lifetime: .seconds(lifetime), interval: .seconds(interval), now: start)
    }

    private func at(_ seconds: Int64) -> Instant { start + .seconds(seconds) }

    @Test("the first poll waits for an interval; pending keeps it; a grant ends")
    func pending() {
        var device = authorization()
        #expect(device.begin(at: start) == .wait(until: at(5)))
        #expect(device.handleDue(at: at(5)) == .poll)
        #expect(device.handle(.pending(retryAfter: nil), at: at(6)) == .wait(until: at(11)))
        #expect(device.handle(.granted, at: at(12)) == .end(.granted))
    }

    @Test("each slow_down adds five seconds for good")
    func slowDown() {
        var device = authorization()
        #expect(device.handle(.slowDown(retryAfter: nil), at: at(5)) == .wait(until: at(15)))
        #expect(device.handle(.slowDown(retryAfter: nil), at: at(15)) == .wait(until: at(30)))
        #expect(device.handle(.pending(retryAfter: nil), at: at(30)) == .wait(until: at(45)))
        #expect(device.interval == .seconds(15))
    }

    @Test("lost polls double the interval up to a minute; a response restores it; Retry-After is a minimum")
    func unreachable() {
        var device = authorization()
        var now: Int64 = 5
        for expected: Int64 in [10, 20, 40, 60, 60] {
            #expect(device.handle(.unreachable(retryAfter: nil), at: at(now)) == .wait(until: at(now + expected)))
            now += expected
        }
        #expect(device.handle(.pending(retryAfter: nil), at: at(now)) == .wait(until: at(now + 5)))
        #expect(device.handle(.unreachable(retryAfter: .seconds(90)), at: at(now)) == .wait(until: at(now + 90)))
        var slow = authorization(interval: 100)
        #expect(slow.handle(.unreachable(retryAfter: nil), at: at(0)) == .wait(until: at(100)))
    }

    @Test("Retry-After is a minimum beside pending and slow_down, too, and moves no interval")
    func retryAfter() {
        var device = authorization()
        #expect(device.handle(.pending(retryAfter: .seconds(9)), at: at(5)) == .wait(until: at(14)))
        #expect(device.handle(.pending(retryAfter: .seconds(2)), at: at(14)) == .wait(until: at(19)))
        #expect(device.handle(.slowDown(retryAfter: .seconds(30)), at: at(19)) == .wait(until: at(49)))
        #expect(device.handle(.slowDown(retryAfter: .seconds(3)), at: at(49)) == .wait(until: at(64)))
        #expect(device.interval == .seconds(15))
        #expect(device.handle(.pending(retryAfter: .seconds(9000)), at: at(64)) == .wait(until: device.expiresAt))
    }

    @Test("the code ends on time, whatever the interval; nothing is asked afterwards")
    func expiry() {
        var device = authorization(lifetime: 12)
        #expect(device.handle(.pending(retryAfter: nil), at: at(10)) == .wait(until: at(12)))
        #expect(device.handleDue(at: at(12)) == .end(.expired))
        #expect(device.handle(.pending(retryAfter: nil), at: at(13)) == .end(.expired))
        #expect(authorization(lifetime: 0).begin(at: start) == .end(.expired))
    }

    @Test("a refusal ends with its error")
    func refusal() {
        var device = authorization()
        let error = DeviceLogin.denied(status: 400)
        #expect(device.handle(.refused(error), at: at(5)) == .end(.refused(error)))
        #expect(error.message.contains("run lanyard login again") && error.code == "access_denied")
    }

    @Test("PKCE's challenge is that of RFC 7636 appendix B")
    func challenge() {
        let key = ProofKey(verifier: Tokens.secret("dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk"))
        #expect(key.challenge == "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM")
        #expect(ProofKey().verifier.count == 43 && ProofKey().verifier != ProofKey().verifier)
    }

    private static func response(_ text: String) throws -> DeviceResponse {
        try Tokens.secret(text).withBytes { bytes throws(DeviceResponse.ResponseError) in try DeviceResponse(bytes) }
    }

    @Test("the response has codes, addresses and times; Google's name of the address is one, too")
    func response() throws {
        let whole = try Self.response(
            #"{"device_code":"d","user_code":"AB-CD","verification_uri":"https://i/d","expires_in":"900","x":{"a":[1]},"#
                + #""verification_uri_complete":"https://i/d?c=AB-CD","interval":7}"#)
        #expect(Tokens.text(whole.deviceCode) == "d" && whole.userCode == "AB-CD")
        #expect(whole.verificationURI == "https://i/d" && whole.completeURI == "https://i/d?c=AB-CD")
        #expect(whole.lifetime == .seconds(900) && whole.interval == .seconds(7))
        let google = try Self.response(
            #"{"device_code":"d","user_code":"A B","verification_url":"https://www.google.com/device","expires_in":1800}"#
        )
        #expect(google.interval == .seconds(5) && google.completeURI == nil && google.userCode == "A B")
    }

    @Test(
        "a complete address that is no http or https URL is not shown, and the code is typed",
        arguments: ["javascript:alert(1)", "file:///etc/passwd", "slack://x", "https://good@evil.example/", "//i/d"])
    func completeAddress(_ uri: String) throws {
        let response = try Self.response(
            #"{"device_code":"d","user_code":"A","verification_uri":"https://i/d","expires_in":900,"#
                + #""verification_uri_complete":"\#(uri)"}"#)
        #expect(response.completeURI == nil && response.verificationURI == "https://i/d")
    }

    @Test(
        "a response that cannot be used says why",
        arguments: [
            ("", "not JSON"), ("[]", "not a JSON object"), ("{}", "no device_code"),
            (#"{"device_code":""}"#, "no device_code"),
            (#"{"device_code":"d","user_code":"a\u001b[2J"}"#, "no user_code that can be shown"),
            (#"{"device_code":"d","user_code":"a"}"#, "no verification_uri"),
            (#"{"device_code":"d","user_code":"a","verification_uri":"javascript:x"}"#, "no verification_uri"),
            (#"{"device_code":"d","user_code":"a","verification_uri":"file:///etc"}"#, "no verification_uri"),
            (#"{"device_code":"d","user_code":"a","verification_uri":"https://a@i"}"#, "no verification_uri"),
            (#"{"device_code":"d","user_code":"a","verification_uri":"https://i/a b"}"#, "no verification_uri"),
            (#"{"device_code":"d","user_code":"a","verification_uri":"https://i"}"#, "no expires_in"),
            (#"{"device_code":"d","user_code":"a","verification_uri":"https://i","expires_in":0}"#, "no expires_in"),
        ])
    func defects(_ text: String, _ reason: String) throws {
        let defect = try #require(throws: DeviceResponse.ResponseError.self) { try Self.response(text) }
        #expect(defect.reason.contains(reason), "\(defect.reason)")
    }
}
