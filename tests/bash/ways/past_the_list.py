"""Tries to get past a list of hosts, one way after the other, and says of each what came of it.

The environment names the ports: LISTED and LEADING of servers that the list names, OTHER and UDP of servers that it
does not. LEADING redirects to OTHER.
A server says HELLO to whoever connects. Sockets of the host are at the paths SOCKET and INNER, and at the abstract
name in ABSTRACT.
"""
import os, re, socket, struct

LISTED, LEADING, OTHER, UDP = (int(os.environ[name]) for name in ("LISTED", "LEADING", "OTHER", "UDP"))
PROXY = tuple(re.fullmatch(r"http://(.*):(\d+)", os.environ["HTTP_PROXY"]).groups())
PROXY = (PROXY[0], int(PROXY[1]))


def hello(connection):
    """Returns true if a server answers."""
    return b"HELLO" in connection.recv(100)


def tcp(host, port, family=socket.AF_INET, protocol=0):
    with socket.socket(family, socket.SOCK_STREAM, protocol) as connection:
        connection.settimeout(1)
        connection.connect((host, port))
        return hello(connection)


def udp(host, port, family=socket.AF_INET):
    with socket.socket(family, socket.SOCK_DGRAM) as connection:
        connection.settimeout(0.3)
        connection.sendto(b"\x12\x34\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00\x07example\x03org\x00\x00\x01\x00\x01", (host, port))
        return bool(connection.recv(100))


def unix(path):
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(1)
        connection.connect(path)
        return hello(connection)


def say(data, after=b""):
    """Sends bytes to the proxy; returns true if a server answers. What comes `after` is sent once the proxy answered."""
    if isinstance(data, str):
        data = data.encode()
    with socket.create_connection(PROXY, timeout=2) as connection:
        connection.sendall(data)
        got = b""
        try:
            while piece := connection.recv(4096):
                got += piece
                if after:
                    connection.sendall(after)
                    after = b""
                if b"HELLO" in got:
                    return True
                if b" 200 " in got:
                    connection.sendall(b"x")
        except OSError:
            pass
        return b"HELLO" in got


def connect(target, *headers, version="HTTP/1.1", method="CONNECT"):
    return say("\r\n".join([f"{method} {target} {version}", *headers, "", ""]))


def socks(kind, address, port, command=1, version=5, reserved=0, methods=b"\x01\x00"):
    with socket.create_connection(PROXY, timeout=2) as connection:
        connection.sendall(b"\x05" + methods)
        if connection.recv(2) != b"\x05\x00":
            return False
        connection.sendall(struct.pack("BBBB", version, command, reserved, kind) + address + struct.pack(">H", port))
        got = b""
        try:
            while piece := connection.recv(4096):
                got += piece
        except OSError:
            pass
        return b"HELLO" in got


def named(name):
    name = name.encode()
    return bytes([len(name)]) + name


def redirected():
    """A listed server leads on to the other one; follows it in each way that a client could."""
    with socket.create_connection(PROXY, timeout=2) as connection:
        connection.sendall(f"CONNECT localhost:{LEADING} HTTP/1.1\r\n\r\n".encode())
        got = b""
        while b"Location" not in got:
            got += connection.recv(4096)
    host, port = re.search(rb"Location: http://(.*):(\d+)/", got).groups()
    host, port = host.decode(), int(port)
    through = connect(f"{host}:{port}") or connect(f"http://{host}:{port}/", method="GET")
    return through or tcp(host, port)


def namespace():
    """Enters the network of the first process that can be seen."""
    os.setns(os.open("/proc/1/ns/net", os.O_RDONLY), 0)
    return tcp("127.0.0.1", OTHER)


L, O = LISTED, OTHER
V4, V6 = socket.inet_aton("127.0.0.1"), socket.inet_pton(socket.AF_INET6, "::1")
WAYS = {
    # Past the proxy.
    "tcp to the host": lambda: tcp("127.0.0.1", O),
    "tcp to the listed server": lambda: tcp("127.0.0.1", L),
    "tcp to any address": lambda: tcp("0.0.0.0", O),
    "tcp by ipv6": lambda: tcp("::1", O, socket.AF_INET6),
    "tcp by a mapped address": lambda: tcp("::ffff:127.0.0.1", O, socket.AF_INET6),
    "tcp to the internet": lambda: tcp("1.1.1.1", 443),
    "tcp by ipv6 to the internet": lambda: tcp("2606:4700:4700::1111", 443, socket.AF_INET6),
    "multipath tcp": lambda: tcp("127.0.0.1", O, protocol=262),
    "sctp": lambda: tcp("127.0.0.1", O, protocol=132),
    "udp to the host": lambda: udp("127.0.0.1", UDP),
    "udp by ipv6": lambda: udp("::1", UDP, socket.AF_INET6),
    "dns to a public server": lambda: udp("8.8.8.8", 53),
    "dns to the local server": lambda: udp("127.0.0.53", 53),
    "dns over tcp": lambda: tcp("8.8.8.8", 53),
    "the resolver": lambda: bool(socket.getaddrinfo("example.org", 443)),
    "ping": lambda: bool(socket.socket(socket.AF_INET, socket.SOCK_DGRAM, 1).sendto(b"\x08\0\0\0\0\0\0\0", ("1.1.1.1", 0))),
    "raw packets": lambda: bool(socket.socket(socket.AF_INET, socket.SOCK_RAW, 1)),
    "raw frames": lambda: bool(socket.socket(socket.AF_PACKET, socket.SOCK_RAW)),
    "vsock to the host": lambda: bool(socket.socket(socket.AF_VSOCK, socket.SOCK_STREAM)),
    "bluetooth": lambda: bool(socket.socket(socket.AF_BLUETOOTH, socket.SOCK_STREAM, 3)),
    "a socket outside": lambda: unix(os.environ["SOCKET"]),
    "a socket in the workspace": lambda: unix(os.environ["INNER"]),
    "an abstract socket": lambda: unix("\0" + os.environ["ABSTRACT"]),
    "another namespace": namespace,
    # Addresses, by CONNECT.
    "an address": lambda: connect(f"127.0.0.1:{O}"),
    "an address with a listed port": lambda: connect("127.0.0.1:443"),
    "an address in ipv6": lambda: connect(f"[::1]:{O}"),
    "an address in ipv6 without brackets": lambda: connect(f"::1:{O}"),
    "a mapped address": lambda: connect(f"[::ffff:127.0.0.1]:{O}"),
    "a mapped address in hex": lambda: connect(f"[::ffff:7f00:1]:{O}"),
    "an address with a zone": lambda: connect(f"[::1%25lo]:{O}"),
    "an address as one number": lambda: connect(f"2130706433:{O}"),
    "an address in hex": lambda: connect(f"0x7f000001:{O}"),
    "an address in parts of hex": lambda: connect(f"0x7f.1:{O}"),
    "an address in octal": lambda: connect(f"0177.0.0.1:{O}"),
    "a short address": lambda: connect(f"127.1:{O}"),
    "an address with a dot": lambda: connect(f"127.0.0.1.:{O}"),
    "zero": lambda: connect(f"0:{O}"),
    "any address": lambda: connect(f"0.0.0.0:{O}"),
    "any address in ipv6": lambda: connect(f"[::]:{O}"),
    "another loopback address": lambda: connect(f"127.9.9.9:{O}"),
    "metadata": lambda: connect("169.254.169.254:80"),
    "metadata in ipv6": lambda: connect("[fd00:ec2::254]:80"),
    # Names and ports, by CONNECT.
    "another port of a listed name": lambda: connect(f"localhost:{O}"),
    "a listed name in capitals, another port": lambda: connect(f"LOCALHOST:{O}"),
    "a listed name with a dot, another port": lambda: connect(f"localhost.:{O}"),
    "a name below a listed one": lambda: connect(f"a.localhost:{L}"),
    "a name that is not listed": lambda: connect(f"ip6-localhost:{L}"),
    "the name above a wildcard": lambda: connect("example.org:443"),
    "a name that ends like a wildcard": lambda: connect("evilexample.org:443"),
    "a listed name as a prefix": lambda: connect("www.example.org.evil.net:443"),
    "a name that looks like a listed one": lambda: connect("www.\u0435xample.org:443"),
    "a wildcard": lambda: connect("*.example.org:443"),
    "no name": lambda: connect(f":{O}"),
    "no port": lambda: connect("localhost"),
    "an empty port": lambda: connect("localhost:"),
    "a port too large": lambda: connect(f"localhost:{65536 + L}"),
    "a port with a sign": lambda: connect(f"127.0.0.1:+{O}"),
    "a port in hex": lambda: connect(f"127.0.0.1:{O:#x}"),
    "a port in other digits": lambda: connect("127.0.0.1:" + "".join(chr(0x660 + int(digit)) for digit in str(O))),
    "two ports": lambda: connect(f"localhost:{L}:{O}"),
    # Tricks of HTTP.
    "a user before the host": lambda: connect(f"localhost:{L}@127.0.0.1:{O}"),
    "a fragment behind the host": lambda: connect(f"127.0.0.1:{O}#localhost:{L}"),
    "a path behind the host": lambda: connect(f"localhost:{L}/../127.0.0.1:{O}"),
    "two hosts": lambda: connect(f"localhost:{L} 127.0.0.1:{O}"),
    "two hosts with a tab": lambda: connect(f"localhost:{L}\t127.0.0.1:{O}"),
    "a zero byte": lambda: connect(f"127.0.0.1\0.example.org:{O}"),
    "a line break": lambda: say(f"CONNECT 127.0.0.1:{O}\r\n.example.org:443 HTTP/1.1\r\n\r\n"),
    "a listed Host": lambda: connect(f"127.0.0.1:{O}", f"Host: localhost:{L}"),
    "another Host": lambda: connect(f"localhost:{O}", f"Host: 127.0.0.1:{O}"),
    "a forwarded host": lambda: connect(f"127.0.0.1:{O}", f"X-Forwarded-Host: localhost:{L}"),
    "a folded header": lambda: connect(f"127.0.0.1:{O}", "X: y", f" Host: localhost:{L}"),
    "two requests at once": lambda: say(f"CONNECT www.example.org:1 HTTP/1.1\r\n\r\nCONNECT 127.0.0.1:{O} HTTP/1.1\r\n\r\n"),
    "a second request": lambda: say("CONNECT a.example.net:443 HTTP/1.1\r\n\r\n", f"CONNECT 127.0.0.1:{O} HTTP/1.1\r\n\r\n".encode()),
    "an absolute path": lambda: connect(f"http://127.0.0.1:{O}/", method="GET"),
    "a path with a Host": lambda: connect("/", f"Host: 127.0.0.1:{O}", method="GET"),
    "a posted path": lambda: connect(f"http://127.0.0.1:{O}/", "Content-Length: 0", method="POST"),
    "a method in lower case": lambda: connect(f"127.0.0.1:{O}", method="connect"),
    "another method": lambda: connect(f"127.0.0.1:{O}", method="CONNECTX"),
    "http 2": lambda: say("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"),
    "http 0.9": lambda: say(f"CONNECT 127.0.0.1:{O}\r\n\r\n"),
    "another version": lambda: connect(f"127.0.0.1:{O}", version="HTTP/3.0"),
    "blank lines first": lambda: say(f"\r\n\r\nCONNECT 127.0.0.1:{O} HTTP/1.1\r\n\r\n"),
    "lines without a return": lambda: say(f"CONNECT 127.0.0.1:{O} HTTP/1.1\n\n"),
    "a huge head": lambda: connect(f"127.0.0.1:{O}", *(f"X{n}: y" for n in range(9000))),
    "tls": lambda: say(b"\x16\x03\x01\x00\x05hello"),
    "a redirect": redirected,
    # SOCKS.
    "an address by socks": lambda: socks(1, V4, O),
    "an address in ipv6 by socks": lambda: socks(4, V6, O),
    "a mapped address by socks": lambda: socks(4, b"\0" * 10 + b"\xff\xff" + V4, O),
    "another port by socks": lambda: socks(3, named("localhost"), O),
    "an address as a name by socks": lambda: socks(3, named("127.0.0.1"), O),
    "a number as a name by socks": lambda: socks(3, named("2130706433"), O),
    "a zero byte by socks": lambda: socks(3, named("localhost\0.example.org"), L),
    "an empty name by socks": lambda: socks(3, named(""), O),
    "a kind of address that does not exist": lambda: socks(2, V4, O),
    "bind by socks": lambda: socks(1, V4, O, command=2),
    "datagrams by socks": lambda: socks(1, V4, UDP, command=3),
    "another version in the middle": lambda: socks(1, V4, O, version=4),
    "a password by socks": lambda: socks(1, V4, O, methods=b"\x01\x02"),
    "socks 4": lambda: say(b"\x04\x01" + struct.pack(">H", O) + V4 + b"\0"),
    "socks 4a": lambda: say(b"\x04\x01" + struct.pack(">H", O) + b"\0\0\0\1\0localhost\0"),
}
CONTROLS = {
    "connect": lambda: connect(f"localhost:{L}"),
    "connect, in capitals": lambda: connect(f"LocalHost.:{L}", f"Host: 127.0.0.1:{O}"),
    "socks": lambda: socks(3, named("localhost"), L),
}


def tried(way):
    try:
        return "REACHED" if way() else "nothing"
    except Exception as error:
        return type(error).__name__


for name, way in WAYS.items():
    print(f"way\t{name}\t{tried(way)}")
for name, way in CONTROLS.items():
    print(f"control\t{name}\t{tried(way)}")
