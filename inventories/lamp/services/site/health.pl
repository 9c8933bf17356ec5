#!/usr/bin/perl
# Answers "NODE VERSION GREETING" while the pages are in service; else 503, and why.
use strict;
use warnings;
use Sys::Hostname;

sub text_of {
    my ($path) = @_;
    open(my $file, "<", $path) or return "";
    chomp(my $line = <$file> // "");
    return $line;
}

sub answer {
    my ($status, $text) = @_;
    print "Status: $status\r\nContent-Type: text/plain\r\n\r\n$text\n";
    exit;
}

answer("503 Service Unavailable", "not in service") unless -e "/etc/site/in-service";
my $address = text_of("/etc/site/database");
my $greeting = eval {
    require DBI;
    my $source = "DBI:MariaDB:database=site;host=$address;mariadb_connect_timeout=2";
    my $database = DBI->connect($source, "site", "", {RaiseError => 1, PrintError => 0});
    $database->selectrow_array("SELECT text FROM texts WHERE name = 'greeting'");
};
answer("503 Service Unavailable", "no database: $@") unless defined $greeting;
answer("200 OK", join(" ", hostname(), text_of("/etc/site/version"), $greeting));
