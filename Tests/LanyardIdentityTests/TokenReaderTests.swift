import TestSupport
import Testing

@testable import LanyardFoundations
@testable import LanyardIdentity

@Suite("Tokens out of responses")
struct TokenReaderTests {
    private func read(_ text: String) throws -> TokenResponse {
        try Array(text.utf8).withUnsafeBytes { bytes in try TokenReader.read(bytes) }
    }

    @Test("the members that matter are taken wherever they stand, all others are passed over")
    func takes() throws {
        let response = try read(
            #"""
            {"x":{"access_token":"no","y":[1,{"error":"no"}]},"access_token":"a.b\u002dc","user_id":"0123","z":null,
             "refresh_token":"r=","device_id":"","expires_in":1.8e3,"link":"https:\/\/x\/logs?co_id=1"}
            """#)
        #expect(Tokens.text(response.accessToken) == "a.b-c" && Tokens.text(response.refreshToken) == "r=")
        #expect(response.userID == "0123" && response.deviceID == "" && response.expiresIn == 1800)
        #expect(!response.hasError && response.errorCode == nil)
    }

    @Test("errors: text or code is enough, other types are no error, odd codes are dropped")
    func errors() throws {
        #expect(try read(#"{"error":"x"}"#).hasError)
        #expect(try read(#"{"error_code":"X"}"#).hasError)
        #expect(try read(#"{"error_code":"InvalidSession","error":"x"}"#).errorCode == "InvalidSession")
        #expect(try !read(#"{"error":{"a":1},"error_code":7}"#).hasError)
        #expect(try !read(#"{"error":null,"error_code":""}"#).hasError)
        for code in [#"a b"#, #"<script>"#, #"a\u0062"#, #"é"#, String(repeating: "x", count: 65)] {
            let response = try read(#"{"error_code":"\#(code)"}"#)
            #expect(response.hasError && response.errorCode == nil)
        }
    }

    @Test(
        "tokens with characters that a header cannot carry, and other types, make the response unfit",
        arguments: [
            #"{"access_token":""}"#, #"{"access_token":"a b"}"#, #"{"access_token":"a\n"}"#, #"{"access_token":"é"}"#,
            #"{"access_token":"a\u0000"}"#, #"{"access_token":"="}"#, #"{"access_token":"a=b"}"#,
            #"{"access_token":7}"#,
            #"{"access_token":["a"]}"#, #"{"access_token":{"a":1}}"#, #"{"refresh_token":"a,b"}"#,
            #"{"user_id":"a b"}"#, #"{"user_id":"\#(String(repeating: "x", count: 129))"}"#,
            #"{"access_token":"\#(String(repeating: "x", count: (32 << 10) + 1))"}"#, #"{"hostname":true}"#,
        ])
    func unfit(text: String) {
        #expect(throws: TokenReader.ReadError.self) { try read(text) }
    }

    @Test(
        "of a response that cannot be used the refresh token is still read",
        arguments: [
            #"{"access_token":7,"refresh_token":"r"}"#, #"{"refresh_token":"r","access_token":"a b"}"#,
            #"{"user_id":"a b","refresh_token":"r"}"#, #"{"refresh_token":"r","access_token":"a"#,
            #"{"refresh_token":"r"} x"#, #"{"refresh_token":"r","refresh_token":"s"}"#,
        ])
    func usable(text: String) {
        let (response, problem) = Array(text.utf8).withUnsafeBytes { TokenReader.readUsable($0) }
        #expect(Tokens.text(response.refreshToken) == "r")
        #expect(problem != nil)
    }

    @Test(
        "what is not one JSON object is refused", arguments: ["", "[]", "null", "\"a\"", "{} x", "<html>", "{\"a\":1"])
    func notObject(text: String) {
        #expect(throws: TokenReader.ReadError.self) { try read(text) }
    }

    @Test(
        "exp and iat are read from a JWT's payload, and nothing else is asked of it",
        arguments: [
            (#"{"exp":1800,"iat":0}"#, 1800, 0),
            (#"{"typ":"access","user_data":{"exp":1},"exp":5,"stitch_devId":"0"}"#, 5, nil),
            (#"{"iat":1.9}"#, nil, 1), ("{}", nil, nil), (#"{"exp":1e3,"iat":99999999999999999999}"#, 1000, .max),
            (#"{"exp":-5}"#, -5, nil),
        ] as [(String, Int64?, Int64?)])
    func claims(payload: String, expiry: Int64?, issuedAt: Int64?) throws {
        let claims = try #require(JWTClaims(of: Tokens.secret(Tokens.jwt(payload))))
        #expect(claims.expiry == expiry && claims.issuedAt == issuedAt)
    }

    @Test(
        "what is no JWT is told apart",
        arguments: [
            "", "word", "a.b", "a.b.c.d", ".e30.c", "a.e30.", "a..c", "a.e.c", "a.!!!!.c", "a.W10.c", "a.eyJ.c",
            "a.e3 0.c",
            "a.____.c", "a.e30===.c",
        ])
    func noJWT(token: String) {
        #expect(JWTClaims(of: Tokens.secret(token)) == nil)
    }

    @Test(
        "both alphabets of base64 and padding are read",
        arguments: ["eyJhIjoiPz8-Pj8_In0", "eyJhIjoiPz8+Pj8/In0", "e30=", "e30"])
    func alphabets(payload: String) {
        #expect(JWTClaims(of: Tokens.secret("a.\(payload).c")) != nil)
    }

    @Test("no input makes the readers trap: answers and tokens, mutated 60,000 times")
    func mutations() async throws {
        Self.mutate()
    }

    private static func mutate() {
        let seeds = [
            #"""
            {"access_token":"\#(Tokens.access())","refresh_token":"\#(Tokens.refresh)",\#
            "user_id":"0123456789abcdef01234567","expires_in":"1800"}
            """#,
            #"""
            {"error":"cannot find app using Client App ID","error_code":"InvalidSession","link":"https:\/\/x",\#
            "n":[1.5e-3,{"\ud83d\udc22":null}]}
            """#,
            #"{"hostname":"http://127.0.0.1:9090","ws_hostname":"ws://é€🐢"}"#,
            Tokens.jwt(#"{"iat":1700000000,"exp":1700001800.5}"#),
        ].map { Array($0.utf8) }
        let spice =
            Array("{}[]\",:\\u0123456789eE+-.tfn =\u{0}\u{80}\u{ff}".utf8) + [0xc3, 0xe2, 0xf0, 0xed, 0xa0, 0xff]
        var random = FixedRandom(seed: 20_261_121)
        for round in 0..<60_000 {
            var bytes = seeds[round % seeds.count]
            for _ in 0...Int.random(in: 0..<4, using: &random) {
                let place = Int.random(in: 0..<max(bytes.count, 1), using: &random)
                switch Int.random(in: 0..<4, using: &random) {
                case 0 where !bytes.isEmpty: bytes.remove(at: place)
                case 1 where !bytes.isEmpty: bytes[place] = spice.randomElement(using: &random)!
                case 2: bytes.insert(spice.randomElement(using: &random)!, at: min(place, bytes.count))
                default: bytes.removeLast(min(bytes.count, Int.random(in: 0..<20, using: &random)))
                }
            }
            // An exact copy on the heap, so that the address sanitizer sees a read beyond the end.
            let secret = bytes.withUnsafeBytes { Secret(copying: $0) }
            secret.withBytes { _ = try? TokenReader.read($0) }
            _ = JWTClaims(of: secret)
        }
    }
}

/// A generator whose numbers are the same in each run (SplitMix64).
private struct FixedRandom: RandomNumberGenerator {
    private var state: UInt64
    init(seed: UInt64) { state = seed }

    mutating func next() -> UInt64 {
        state &+= 0x9e37_79b9_7f4a_7c15
        var z = state
        z = (z ^ (z >> 30)) &* 0xbf58_476d_1ce4_e5b9
        z = (z ^ (z >> 27)) &* 0x94d0_49bb_1331_11eb
        return z ^ (z >> 31)
    }
}
