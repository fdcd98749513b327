import Foundation
import LanyardFoundations
import TestSupport

@testable import SystemTestSupport

/// An App Services client API that answers half of the calls with lies, and remembers each access token that it gave out.
final class LyingIdentity: Sendable {
    static let app = "liar-abcde"

    private final class Record: Sendable {
        let tokens = KnownTokens()
        let serial = Guarded(0)

        /// A token that looks right: three parts, three seconds of life.
        func accessToken(seconds: Int = 3) -> String {
            let number = serial.withLock {
                $0 += 1
                return $0
            }
            let now = Int(Date().timeIntervalSince1970)
            let token = Self.jwt(#"{"typ":"access","jti":"liar-\#(number)","iat":\#(now),"exp":\#(now + seconds)}"#)
            tokens.add(token)
            return token
        }

        static func jwt(_ claims: String) -> String {
            [#"{"alg":"HS256"}"#, claims, "signature"].map { part in
                Data(part.utf8).base64EncodedString().replacing("+", with: "-").replacing("/", with: "_")
                    .replacing("=", with: "")
            }.joined(separator: ".")
        }
    }

    private let record = Record()
    private let server: RawServer

    init(seed: UInt64, findings: SoakFindings) throws {
        let random = SoakRandom(seed)
        let record = record
        server = try RawServer(requestsKeptMax: 0) { request in
            findings.count("calls of the lying identity")
            let target = request.message.target
            if target.hasSuffix("/location") {
                let host = request.message["Host"] ?? "localhost"
                return Self.json(
                    #"{"deployment_model":"GLOBAL","location":"US-VA","hostname":"http://\#(host)","ws_hostname":"ws://\#(host)"}"#
                )
            }
            if request.message.method == "DELETE" { return .text("HTTP/1.1 204 No Content\r\n\r\n") }
            if random.chance(50) { return Self.lie(random, record) }
            let access = record.accessToken()
            if target.hasSuffix("/auth/session") { return Self.json(#"{"access_token":"\#(access)"}"#, status: 201) }
            return Self.json(Self.login(access))
        }
    }

    var endpoint: RawEndpoint { server.endpoint }

    /// Whether it gave that token out.
    func knows(_ token: String) -> Bool { record.tokens.contains(token) }

    private static func login(_ access: String, refresh: String = Record.jwt(#"{"typ":"refresh"}"#)) -> String {
        #"{"access_token":"\#(access)","refresh_token":"\#(refresh)","user_id":"liar","device_id":"1"}"#
    }

    private static func json(_ text: String, status: Int = 200) -> RawResponse {
        .response(status, "Whatever", fields: [("Content-Type", "application/json")], body: text)
    }

    /// None of these carries an access token that may be used.
    private static func lie(_ random: SoakRandom, _ record: Record) -> RawResponse {
        let never = Record.jwt(#"{"typ":"access","jti":"never","iat":1000,"exp":1001}"#)
        switch random.number(0...15) {
        case 0: return .close
        case 1: return .reset
        case 2: return json(#"{"access_token":"#)
        case 3: return json(login("no-jwt"))
        case 4: return json(login(never))
        case 5: return json(#"{"access_token":17,"refresh_token":{},"user_id":[]}"#)
        case 6: return json(String(repeating: "[", count: 100_000))
        case 7: return .large(3 << 20, byte: 0x5b)
        case 8: return .text("HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:9/\r\nContent-Length: 0\r\n\r\n")
        case 9: return .response(500, "Broken", body: "<html>no</html>")
        case 10: return .response(503, "Later", fields: [("Retry-After", "1")])
        case 11: return .response(429, "Slowly", fields: [("Retry-After", "yesterday")])
        case 12: return .text("HTTP/1.1 200 OK\r\nContent-Length: 900000\r\n\r\n{").after(.milliseconds(200)).closing
        case 13: return .text("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n").closing
        case 14: return json(login("two words\\r\\nX-Smuggled: yes"))
        default: return json(login("")).after(random.milliseconds(100...1500))
        }
    }
}
