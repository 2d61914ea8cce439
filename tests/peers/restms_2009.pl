# LWP and XML::Simple as a client of RestMS, with the habits of those of 2009: `perl restms_2009.pl HOST:PORT`.
#
# These habits: one TCP connection for each request; credentials only when a realm is named that is known; the namespace
# of a draft; `fifo` for pipes; PUT on pipes; a Location and a document in each answer to a create; names that are empty
# on PUT; resources that are deleted twice; contents without a type; documents read by XML::Simple with its defaults,
# which loses the text of elements without attributes, and folds lists whose elements have a name, a key or an id.
use strict;
use warnings;
use HTTP::Request;
use LWP::UserAgent;
use MIME::Base64;
use Test::More;
use XML::Simple;

my ($address) = @ARGV;
my $base = "http://$address";
my $lists = [qw(join message)];
my $agent = LWP::UserAgent->new(timeout => 60, agent => "habits of 2009");
$agent->credentials($address, "RestMS::", "guest", "guest");

sub ask {
    my ($method, $uri, $body, $type) = @_;
    $uri = "$base$uri" unless $uri =~ m{^http};
    my $request = HTTP::Request->new($method, $uri);
    $request->header(Accept => "application/restms+xml");
    if (defined $body) {
        $request->header("Content-Type" => $type // "application/restms+xml");
        $request->header("Content-Length" => length $body);
        $request->content($body);
    }
    return $agent->request($request);
}

sub document { return qq(<?xml version="1.0"?>\n<restms xmlns="http://www.imatix.com/schema/restms">\n  $_[0]\n</restms>) }

sub expect {
    my ($status, $method, $uri, $body, $type) = @_;
    my $reply = ask($method, $uri, $body, $type);
    my $about = "$method $uri is $status";
    is($reply->code, $status, $about) or diag $reply->content;
    is($reply->content_type, "text/plain", "$about, in plain text") if $status >= 400;
    return $reply;
}

sub parsed { return XMLin($_[0]->content, ForceArray => $lists) }

sub looked_at { return parsed(expect(200, GET => $_[0])) }

# What such a client does for each create: it dies without a document or a Location, also where nothing was made.
sub create {
    my ($uri, $element) = @_;
    my $reply = ask(POST => $uri, document($element));
    ok($reply->is_success, "$element is made") or diag $reply->content;
    ok($reply->content, "$element: a document comes back");
    like($reply->header("Location"), qr{^http://\Q$address\E/restms/}, "$element: an absolute Location comes back");
    return $reply->header("Location");
}

# The oldest message of a pipe, or the next one that comes, is read, and deleted with its content.
sub receive {
    my ($pipe) = @_;
    my $listed = looked_at($pipe)->{pipe}{message};
    my $uri = $listed->[0]{href};
    my $reply = ask(GET => $uri);
    return undef if $reply->code == 500;    # LWP's own answer when its time is over
    is($reply->code, 200, "message is read");
    my ($message) = @{ parsed($reply)->{message} };
    my $content = $message->{content};
    if ($content->{href}) {
        my $body = ask(GET => $content->{href});
        $message->{text} = $body->content;
        expect(200, DELETE => $content->{href});
    } elsif ($content) {
        my $text = $content->{content} // "";
        $message->{text} = ($content->{encoding} // "") eq "base64" ? decode_base64($text) : $text;
    }
    expect(200, DELETE => $uri);
    return $message;
}

sub send_embedded {
    my ($feed, $attributes, $text, $encoding) = @_;
    $encoding //= "plain";
    $text = "\n      " . encode_base64($text) . "    " if $encoding eq "base64";
    my $content = qq(<content type="text/plain" encoding="$encoding">$text</content>);
    expect(200, POST => $feed, document("<message $attributes>$content</message>"));
}

subtest "the realm is the one that clients know, and others ask in vain" => sub {
    my $stranger = LWP::UserAgent->new->get("$base/restms/domain/default");
    is($stranger->code, 401);
    like($stranger->header("WWW-Authenticate"), qr{^Basic realm="RestMS::"});
    is(ask(GET => "/restms/domain/default")->code, 200);
};

my $domain = "/restms/domain/default";

subtest "domain" => sub {
    my $feeds = looked_at($domain)->{domain}{feed};    # folded by their names
    like($feeds->{default}{href}, qr{/restms/feed/default$}, "default is listed");
    expect(403, PUT => $domain, document("<domain/>"));
    expect(403, DELETE => $domain);
    expect(403, POST => $domain, document("<message/>"));
    expect(400, POST => $domain, "");
    expect(400, POST => $domain, document('<feed type="nonsense"/>'));
    expect(400, POST => $domain, "<restms><feed");
};

subtest "default feed" => sub {
    my $default = create($domain, '<feed name="default" type="topic" title=""/>');
    is(looked_at($default)->{feed}{type}, "direct", "type of the default feed");
    expect(403, PUT => $default, document('<feed title="mine"/>'));
    expect(403, DELETE => $default);
};

subtest "a feed from its creation to its end" => sub {
    my $feed = create($domain, '<feed name="habits" type="topic" title="one"/>');
    is(create($domain, '<feed name="habits" type="topic" title="two"/>'), $feed, "the same feed again");
    expect(200, PUT => $feed, document('<feed name="" title="three" license="none"/>'));
    my $found = looked_at($feed)->{feed};
    is("$found->{title} $found->{license} $found->{type}", "three none topic");
    expect(200, DELETE => $feed) for 1 .. 2;
    expect(404, GET => $feed);
    expect(404, PUT => $feed, document('<feed title="x"/>'));
};

subtest "a pipe from its creation to its end" => sub {
    my $pipe = create($domain, qq(<pipe type="fifo" title="one" name="remembered\n"/>));
    my $found = looked_at($pipe)->{pipe};
    is($found->{type}, "fifo");
    like($pipe, qr{/restms/resource/\Q$found->{name}\E$}, "its name is its hash");
    is(looked_at("/restms/resource/$found->{name}")->{pipe}{name}, $found->{name}, "a remembered name leads to it");
    expect(200, PUT => $pipe, document('<pipe title="two"/>'));
    is(looked_at($pipe)->{pipe}{title}, "two");
    my ($default) = @{ looked_at($pipe)->{pipe}{join} };
    is($default->{address}, $found->{name}, "address of its default join");
    expect(403, DELETE => $default->{href});
    expect(403, POST => $pipe, document("<message/>"));
    expect(200, DELETE => $pipe) for 1 .. 2;
    expect(404, GET => $pipe);
    expect(404, PUT => $pipe, document('<pipe title="x"/>'));
};

subtest "a join from its creation to its end, and made three times" => sub {
    my $feed = create($domain, '<feed name="joined" type="topic"/>');
    my $pipe = create($domain, '<pipe type="fifo"/>');
    my ($join) = map { create($pipe, qq(<join address="a.*" feed="$feed"/>)) } 1 .. 3;
    expect(403, PUT => $join, document('<join address="b"/>'));
    expect(403, POST => $join, document("<message/>"));
    my ($found) = @{ looked_at($join)->{join} };
    is("$found->{feed} $found->{address}", "$feed a.*");
    send_embedded($feed, 'address="a.b" message_id="1"', "once");
    is(receive($pipe)->{text}, "once");
    my @left = @{ looked_at($pipe)->{pipe}{message} };
    is(scalar @left, 1, "one copy, and the asynclet behind it");
    is($left[0]{async}, 1);
    expect(404, POST => $pipe, document('<join address="x" feed="/restms/feed/nowhere"/>'));
    expect(403, POST => $pipe, document('<join address="x" feed="/restms/feed/default"/>'));
    expect(200, DELETE => $join) for 1 .. 2;
    expect(404, GET => $join);
    expect(404, PUT => $join, document("<join/>"));
    expect(200, DELETE => $feed);
};

subtest "contents by reference and embedded, and the attributes of a message" => sub {
    my $pipe = create($domain, '<pipe type="fifo"/>');
    my $name = looked_at($pipe)->{pipe}{name};
    my $feed = "/restms/feed/default";

    # Net::HTTP warns of a type that is not there, and sends it empty.
    my $staged = do {
        local $SIG{__WARN__} = sub { };
        my $reply = ask(POST => $feed, "no type at all", "");
        is($reply->code, 201, "content without a type is staged") or diag $reply->content;
        is($reply->header("Content-Length"), 0);
        $reply->header("Location");
    };
    my $message = qq(<message address="$name"><content href="$staged"/></message>);
    expect(200, POST => $feed, document($message));
    expect(404, POST => $feed, document($message));
    is(receive($pipe)->{text}, "no type at all");

    my $large = ask(POST => $feed, "x" x 200_000, "application/zip")->header("Location");
    expect(200, POST => $feed, document(qq(<message address="$name"><content href="$large"/></message>)));
    is(length receive($pipe)->{text}, 200_000, "a large content, by its own URI");

    send_embedded($feed, qq(address="$name"), join("", map { chr } 0 .. 255), "base64");
    is(receive($pipe)->{text}, join("", map { chr } 0 .. 255), "any octets, in base64 over several lines");

    my $header = '<header name="colour" value="green &amp; blue"/>';
    my $attributes = qq(address="$name" message_id="7" reply_to="$name" correlation_id="c" priority="4");
    expect(200, POST => $feed, document("<message $attributes>$header<content type='text/plain'>t</content></message>"));
    my $got = receive($pipe);
    is("$got->{message_id} $got->{correlation_id} $got->{priority} $got->{text}", "7 c 4 t");
    is($got->{reply_to}, $name);
    is("$got->{header}{name}: $got->{header}{value}", "colour: green & blue");
    expect(200, DELETE => $pipe);
};

subtest "a receive that gives up after a second loses nothing" => sub {
    my $pipe = create($domain, '<pipe type="fifo"/>');
    my $name = looked_at($pipe)->{pipe}{name};
    $agent->timeout(1);
    is(receive($pipe), undef, "nothing was there");
    $agent->timeout(60);
    send_embedded("/restms/feed/default", qq(address="$name"), "kept");
    is(receive($pipe)->{text}, "kept");
};

subtest "a service and two who share its work; each request finds its way back" => sub {
    my $service = create($domain, '<feed name="upper" type="service"/>');
    my @workers = map { create($domain, '<pipe type="fifo"/>') } 1 .. 2;
    my @joins = map { create($_, qq(<join feed="$service" address="*"/>)) } @workers;
    my $replies = create($domain, '<pipe type="fifo"/>');
    my $name = looked_at($replies)->{pipe}{name};
    send_embedded($service, qq(reply_to="$name" message_id="$_"), "request $_") for 1 .. 2;
    for my $worker (@workers) {
        my $request = receive($worker);
        send_embedded("/restms/feed/default", qq(address="$request->{reply_to}"), uc $request->{text});
    }
    is(join(", ", sort map { receive($replies)->{text} } 1 .. 2), "REQUEST 1, REQUEST 2");
    expect(200, DELETE => $_) for @joins;
    expect(404, GET => $service);
};

subtest "all messages of a pipe, from one that is deleted to the newest" => sub {
    my $feed = create($domain, '<feed name="many" type="fanout"/>');
    my $pipe = create($domain, '<pipe type="fifo"/>');
    create($pipe, qq(<join feed="$feed" address="*"/>));
    expect(200, POST => $feed, document(join "", map { qq(<message message_id="$_"/>) } 1 .. 5));
    my @listed = @{ looked_at($pipe)->{pipe}{message} };
    is(scalar @listed, 6);
    expect(200, DELETE => $listed[2]{href}) for 1 .. 2;
    is(scalar @{ looked_at($pipe)->{pipe}{message} }, 3, "it and all older ones are gone, and no more");
    is(receive($pipe)->{message_id}, 4);
    expect(404, DELETE => looked_at($pipe)->{pipe}{message}[-1]{href});
    is(receive($pipe)->{message_id}, 5);
    expect(200, DELETE => $feed);
};

done_testing;
